"""Instances of scheduling: a cluster over time, and jobs that arrive at it."""
