"""Formulation of mix, and the check of its plans and bounds."""
