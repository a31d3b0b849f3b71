"""DL²: a network that learns how to divide the cluster."""
