"""Variables: ops, classes, scopes, initialisers, assignments and row updates."""
