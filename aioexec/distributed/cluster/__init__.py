"""The description of a cluster, and how a process determines it and its own task."""
