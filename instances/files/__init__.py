"""Files of documents and tables: JSON, YAML, CSV, Parquet."""
