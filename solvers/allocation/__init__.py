"""Solution methods for allocation."""
