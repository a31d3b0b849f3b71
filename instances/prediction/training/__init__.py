"""Training on several GPUs: seconds and memory of steps by parallelism, and what to rent for a deadline."""
