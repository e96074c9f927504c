"""A server: one task of a cluster, its states, and its command."""
