"""Importers of published traces and measurements of clusters, and of the user's own traces."""
