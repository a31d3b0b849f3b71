"""Instances of staging: layers of a model, and types of hardware for their stages."""
