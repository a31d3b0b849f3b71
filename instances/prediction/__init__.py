"""Prediction of times and memory of training a model on GPUs, each with an interval.

It is not a kind of problem; it makes instances of the existing kinds.
"""
