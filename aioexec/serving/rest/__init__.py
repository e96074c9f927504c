"""The REST interface of TensorFlow Serving."""
