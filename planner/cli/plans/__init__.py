"""The commands that show or write stored plans."""
