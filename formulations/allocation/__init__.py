"""Formulation of allocation, and the check of its plans and bounds."""
