"""Solution methods, MILP backends, and the registry of solvers."""
