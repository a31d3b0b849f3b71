"""Shared parts of all kinds of instance: fields, errors, faults, hardware, texts."""
