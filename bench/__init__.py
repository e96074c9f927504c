"""Benchmarks: one module per question, aioexec and its peers in one run; see `python -m bench --help`."""
