"""Ops of datasets and iterators."""
