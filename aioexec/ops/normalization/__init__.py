"""Batch normalisation and local response normalisation: ops, launches and native loops."""
