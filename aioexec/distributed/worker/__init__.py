"""TensorFlow's WorkerService: a task's parts of steps, and the transfer of tensors between tasks."""
