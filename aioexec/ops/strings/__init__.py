"""Ops on strings: joining, splitting, hashing, regular expressions, conversion to and from numbers."""
