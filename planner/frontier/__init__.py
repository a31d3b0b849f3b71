"""The whole trade-off between two objectives."""
