"""What certifies a choice; no solver imports it."""
