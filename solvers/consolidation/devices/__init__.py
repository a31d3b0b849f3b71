"""Consolidation with single devices: bounds by server shape, placement on devices, local search."""
