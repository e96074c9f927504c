"""Op families: definition, shape rule, reference kernel, native form gradient of each op, and its TensorFlow-named wrapper."""
