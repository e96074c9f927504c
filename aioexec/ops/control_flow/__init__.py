"""Control dependencies, conditionals and loops, assertions, and the nodes that planning makes of them."""
