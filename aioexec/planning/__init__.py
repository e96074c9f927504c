"""Planning: compiles a graph and a signature to a frozen plan."""
