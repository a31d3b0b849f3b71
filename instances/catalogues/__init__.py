"""Hardware catalogues that come with the package: load one with ``catalogue:NAME``."""
