"""Intervals: split conformal over groups."""
