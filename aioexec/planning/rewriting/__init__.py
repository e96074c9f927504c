"""Passes that replace operations by fewer or cheaper ones, with the same results but for rounding; and such replacement."""
