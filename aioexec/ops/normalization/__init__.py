"""Batch normalisation and local response normalisation: definitions, launches and native loops."""
