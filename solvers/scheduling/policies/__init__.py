"""Scheduling policies, by the information that they use and the jobs that they serve first."""
