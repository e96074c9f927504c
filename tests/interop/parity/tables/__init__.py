"""One table per family of ops; see the package above for how to write one."""
