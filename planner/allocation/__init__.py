"""How plans and frontiers of allocation look, and what is checked of them."""
