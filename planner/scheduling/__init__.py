"""Output of schedules: tables of segments, metrics, and plots of the queue over time."""
