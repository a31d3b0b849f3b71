"""What the formulations of all kinds share: objectives, tolerances, the compact model."""
