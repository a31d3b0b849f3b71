"""The command line: modules of the commands and of their shared options."""
