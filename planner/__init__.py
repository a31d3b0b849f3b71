"""What people call: the library functions and the command line."""
