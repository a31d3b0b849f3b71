"""Formulation of staging, and the check of its plans and bounds."""
