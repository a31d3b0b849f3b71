"""Verification of stored results and frontiers, without trust in the solver that made them."""
