"""Variables: nodes, objects, scopes, initialisers, assignments and updates of rows."""
