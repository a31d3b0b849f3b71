"""The commands that make instances, or parts of them."""
