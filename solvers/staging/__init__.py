"""How staging is solved."""
