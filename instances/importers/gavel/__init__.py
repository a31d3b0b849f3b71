"""Traces and throughputs of Gavel (OSDI 2020)."""
