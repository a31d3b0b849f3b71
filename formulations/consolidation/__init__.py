"""The formulation of consolidation, and the check of its plans and bounds."""
