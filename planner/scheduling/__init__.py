"""How schedules are shown: segments, figures, and the queue over time."""
