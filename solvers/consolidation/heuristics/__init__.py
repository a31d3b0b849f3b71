"""List heuristics of vector bin packing."""
