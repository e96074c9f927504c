"""`aioexec demo`: trains on real data in one event loop that also serves predictions."""
