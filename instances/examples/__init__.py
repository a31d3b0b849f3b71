"""Worked examples that come with the package: load one with ``example:NAME``."""
