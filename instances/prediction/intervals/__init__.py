"""Intervals over groups, calibrated on groups that were left out."""
