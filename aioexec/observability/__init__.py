"""Observability: metrics, traces and event files."""
