"""Scheduling policies, each by what it knows and whom it serves first."""
