"""Lets `python -m clusterplan` do what the command does."""

from .planner.cli import main

main()
