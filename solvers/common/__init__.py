"""What solvers of all kinds share: contract, options, results."""
