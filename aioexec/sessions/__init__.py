"""Sessions: the interface through which a program runs parts of a graph."""
