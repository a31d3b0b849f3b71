"""Single devices: which ones a server's tasks can hold, and what a plan on named devices must keep."""
