"""Modules shared by the formulations of all kinds: objectives, tolerances, compact models, time limits."""
