"""Instances of allocation: jobs whose numbers of parameter servers and workers are to be chosen."""
