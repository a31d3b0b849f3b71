"""Formulation of scheduling: segments, constraints, objectives and metrics."""
