"""Instances of scheduling: a cluster over time, and the jobs that arrive at it."""
