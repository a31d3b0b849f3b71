"""Importers of the state of clusters in use, as Kubernetes, Slurm and Flux print it, for consolidation."""
