"""Shared by the solvers of all kinds: contract, options, results."""
