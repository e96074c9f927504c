"""A server: one task of a cluster, its states, its command, and its health service."""
