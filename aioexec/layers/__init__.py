"""Layers under the names of `tf.layers`."""
