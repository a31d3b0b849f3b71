"""The check of mix certificates: bounds of branching trees in exact arithmetic."""
