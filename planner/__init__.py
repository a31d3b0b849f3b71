"""The public interface: library functions and the command line."""
