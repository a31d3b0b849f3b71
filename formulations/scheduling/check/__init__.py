"""What certifies a schedule; no solver imports it."""
