"""Networks that TensorFlow builds, with random weights, for the benchmark of whole networks."""
