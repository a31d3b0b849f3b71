"""Prices of time by subgradient ascent: what proves how good a schedule can be at most."""
