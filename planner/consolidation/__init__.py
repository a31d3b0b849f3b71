"""How plans of consolidation look, and the forms in which they are carried out."""
