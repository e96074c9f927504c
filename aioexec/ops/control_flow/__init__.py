"""Control dependencies, conditionals, loops, assertions and printing; and the nodes that planning rewrites them to."""
