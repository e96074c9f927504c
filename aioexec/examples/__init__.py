"""What programs import from `tensorflow.examples`: the reader of MNIST's files."""
