"""Instances of consolidation: servers, and jobs whose tasks are to be placed on them."""
