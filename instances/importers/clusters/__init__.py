"""Importers of the state of clusters in use, as Kubernetes and Slurm print it, for consolidation."""
