"""Distributed execution: clusters, servers, masters, workers, and sessions on servers."""
