"""Datasets and iterators: immutable descriptions of sequences, and passes over them."""
