"""Two lists of partial choices that meet in the middle."""
