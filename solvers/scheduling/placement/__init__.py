"""On which servers chosen jobs run."""
