"""Nonlinear formulations of allocation: geometric programmes, and mixed-integer nonlinear models."""
