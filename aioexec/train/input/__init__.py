"""Input pipelines of queues, and the runners that fill them."""
