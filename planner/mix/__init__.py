"""Tables, pages, exports and the frontiers of mix plans."""
