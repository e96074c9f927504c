"""TensorFlow's MasterService."""
