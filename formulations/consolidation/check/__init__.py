"""The check of placements and bounds: its own classes, pricing problems and enumeration."""
