"""Instances of staging: layers in order, and types of hardware to run them on."""
