"""Pages for people: one self-contained HTML file each, which opens without a network."""
