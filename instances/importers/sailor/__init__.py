"""Sailor: measured times of the layers of language models, with tensor parallelism."""
