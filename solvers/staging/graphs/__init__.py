"""Exact methods for staging on graphs of layers."""
