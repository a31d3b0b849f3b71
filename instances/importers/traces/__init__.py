"""Importers of traces: jobs that come to a cluster one after the other, as scheduling instances."""
