"""List heuristics for vector bin packing, and local search."""
