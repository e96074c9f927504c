"""Session hooks, and what they share."""
