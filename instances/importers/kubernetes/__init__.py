"""The state of a Kubernetes cluster, as kubectl prints it."""
