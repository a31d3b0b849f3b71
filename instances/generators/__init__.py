"""Reproducible synthetic instances; each says so in its name and assumptions."""
