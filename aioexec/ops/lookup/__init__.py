"""Lookup tables and vocabularies: the ops, and the classes that users create."""
