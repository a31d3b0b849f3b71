"""The mathematics of consolidation, and the check of its plans and bounds."""
