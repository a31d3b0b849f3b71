"""Tables, pages and verification of staging plans and frontiers."""
