"""A campaign against the package with random instances, forged results and damaged files.

What is right is found by code of its own, written from the documentation: see `truth`. Run it with
``make fuzz MINUTES=30``, or from the folder `tests` with ``python -m fuzz --help``.
"""
