"""What a server tells about itself: metrics, spans, logs."""
