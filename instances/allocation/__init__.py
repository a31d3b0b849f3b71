"""Instances of allocation: jobs whose parameter servers and workers are to be counted."""
