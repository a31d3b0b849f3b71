"""How allocation is solved."""
