"""Ops of neural networks: activations, softmax, cross entropies, embeddings. Not convolution, pooling, normalisation."""
