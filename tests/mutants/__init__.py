"""Do the tests notice when a check is wrong? Small mistakes are planted in the checks, one at a time.

Run it with ``make mutate SEED=1 COUNT=60``, or from the folder `tests` with ``python -m mutants --help``.
"""
