"""Solution methods of consolidation."""
