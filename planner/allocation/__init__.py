"""Output and verification of allocation plans and frontiers."""
