"""Reports as self-contained HTML pages, which need no network, and as text tables."""
