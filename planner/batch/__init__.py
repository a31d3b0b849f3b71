"""Where solves run: worker processes on this machine, or Dask workers on many."""
