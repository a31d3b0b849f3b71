"""Checking stored results and frontiers, without trusting whoever made them."""
