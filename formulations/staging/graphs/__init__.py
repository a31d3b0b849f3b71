"""Staging on graphs of layers: classes, ideals, and the stages between them."""
