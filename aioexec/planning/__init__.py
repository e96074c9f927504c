"""From a graph and a signature to a frozen plan."""
