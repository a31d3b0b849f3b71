"""Plans in the forms that cluster managers read."""
