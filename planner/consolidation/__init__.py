"""Output of consolidation plans: tables, pages, and scripts for Slurm and Kubernetes."""
