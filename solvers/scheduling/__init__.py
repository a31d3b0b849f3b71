"""Solvers of scheduling: simulation engines, policies, local search and dual bounds."""
