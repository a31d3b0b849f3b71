"""Layer graphs that other planners published."""
