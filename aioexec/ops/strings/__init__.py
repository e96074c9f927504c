"""Ops on strings: joining, splitting, hashes, conversion to and from numbers, regular expressions."""
