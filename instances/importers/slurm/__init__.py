"""The state of a Slurm cluster, as its commands print it."""
