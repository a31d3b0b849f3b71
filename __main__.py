"""Lets `python -m clusterplan` do what the command does."""

from .planner.cli.start import program

program()
