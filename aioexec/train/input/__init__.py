"""Input pipelines of queues, and the queue runners that fill them."""
