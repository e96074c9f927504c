"""Which tasks a cluster has, and how a program finds its own."""
