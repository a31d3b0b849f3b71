"""What goes in: the data model, files, importers and generators."""
