"""How consolidation is solved."""
