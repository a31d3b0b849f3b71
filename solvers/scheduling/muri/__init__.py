"""Schedules as Muri's simulator makes them, with its own counting of time."""
