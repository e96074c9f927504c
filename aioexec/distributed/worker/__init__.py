"""TensorFlow's WorkerService: a task's parts of steps, and tensors between tasks."""
