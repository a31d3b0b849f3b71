"""Fill: instances from predictions, every figure with its error among the assumptions."""
