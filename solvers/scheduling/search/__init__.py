"""The search for the best schedules, by a solver that knows everything."""
