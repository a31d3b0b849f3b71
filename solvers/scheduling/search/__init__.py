"""Clairvoyant search for the best schedules of a trace."""
