"""Scripts that carry out plans in cluster managers: the order of steps, and their commands."""
