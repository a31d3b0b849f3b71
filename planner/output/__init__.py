"""What is written to terminals and files."""
