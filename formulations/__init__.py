"""The mathematics: plans, objectives, constraints, verification and the textbook models."""
