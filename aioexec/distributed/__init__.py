"""One graph over many processes: clusters, servers, masters, workers, and the sessions that reach them."""
