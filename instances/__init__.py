"""Instances: the data model, document files, importers of other formats, and generators."""
