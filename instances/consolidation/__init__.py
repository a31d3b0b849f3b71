"""Instances of consolidation: servers, and jobs whose tasks need places."""
