"""How much an input may hold, so that a small or hostile file is answered soon and in little memory.

The figures were measured: files of 50 MB made to be slow are answered within 5 s and 500 MB. The reference
of documents lists them.
"""

from __future__ import annotations

MOST_BYTES = 2**30
"""Of any file."""
MOST_UNPACKED_BYTES = 2**26
"""That a compressed file may become."""
MOST_YAML_BYTES = 2**21
MOST_YAML_BYTES_SLOW = 2**17
"""Of YAML where PyYAML comes without its C library."""
DEEPEST = 100
"""Lists and mappings inside each other."""
MOST_VALUES = 1_000_000
"""Of a document, aliases written out; larger ones keep their lists in tables."""
MOST_MEMORY, PER_BYTE = 350_000_000, 7
"""Bytes that a JSON text may become: so many, or so many for each of its own."""
MOST_ENTRIES = 100_000
"""Of a list of jobs, servers, layers or types that stands in a document, not in a table."""

MOST_COLUMNS = 5_000
DEEPEST_COLUMN = 20
"""Dots in the name of a column."""
LONGEST_ROW = 2**22
"""Characters of one row of a CSV file."""
MOST_ROWS, MOST_CELLS = 2_000_000, 100_000_000
"""Of a table."""
MOST_SMALL_ROWS, MOST_SMALL_CELLS = 500_000, 1_000_000
"""Of a table that is read row by row; empty cells do not count."""
MOST_ALIKE_CELLS = 20_000_000
"""Filled cells of a table whose rows become one object each."""
LONGEST_TEXT = 40_000
"""Bytes of a cell of text; no field takes a longer one."""
MOST_TABLE_BYTES = 2**29
"""That a Parquet table may become."""
