"""The mathematics of scheduling: segments, constraints, objectives and metrics."""
