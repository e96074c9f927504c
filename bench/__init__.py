"""Benchmarks: one file a question, aioexec beside its peers in one run; see `python -m bench --help`."""
