"""Importers of layer graphs and layer times that other planners published, as staging instances."""
