"""Sessions on servers."""
