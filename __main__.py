"""Lets `python -m clusterplan` do what the command does."""

from .planner.cli.main import program

program()
