"""The graph: nodes, tensors and scopes, the op registry, function bodies, and import and export of GraphDefs."""
