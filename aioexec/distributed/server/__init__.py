"""A server: one task of a cluster, and its life."""
