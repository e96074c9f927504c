"""Op families: definition, shape rule, reference kernel, native form and gradient of each op, and its TensorFlow-named wrapper."""
