"""Steps: seconds of a whole training step under data, tensor and pipeline parallelism."""
