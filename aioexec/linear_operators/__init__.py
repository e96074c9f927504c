"""Matrices given by their structure, under the names of `tf.linalg`."""
