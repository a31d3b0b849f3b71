"""Execution of many solves in worker processes on this machine or on a Dask cluster."""
