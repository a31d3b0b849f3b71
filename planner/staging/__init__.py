"""How plans and frontiers of staging look, and what is checked of them."""
