"""The page of one plan."""
