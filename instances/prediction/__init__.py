"""Prediction: from a model's description and a GPU to seconds and bytes, each with an interval.

No kind of problem: it fills the instances of those that there are.
"""
