"""Importers of what runs together on devices: jobs that share them, and replicas that serve requests."""
