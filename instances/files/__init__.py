"""Documents and tables as they lie in files: JSON, YAML, CSV, Parquet."""
