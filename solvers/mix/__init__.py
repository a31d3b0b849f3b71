"""Solution methods for mix."""
