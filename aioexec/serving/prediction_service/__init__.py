"""TensorFlow Serving's gRPC services: `prediction_service` runs models, `model_service` reports and configures them."""
