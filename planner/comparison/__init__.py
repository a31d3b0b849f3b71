"""Solvers side by side."""
