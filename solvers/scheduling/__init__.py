"""How schedules are made: an engine that moves from event to event, and policies that decide at each."""
