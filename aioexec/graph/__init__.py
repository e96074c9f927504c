"""What a graph is: op registry, nodes, scopes, import and export."""
