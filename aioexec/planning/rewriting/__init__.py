"""Passes that replace operations by fewer or cheaper ones; their results differ by rounding only."""
