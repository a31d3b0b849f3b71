"""Instances of mix: types of jobs or requests, hardware, and what may run on its devices."""
