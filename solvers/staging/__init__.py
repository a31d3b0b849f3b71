"""Solution methods for staging."""
