"""`aioexec demo`: training on real data in one event loop that serves predictions meanwhile."""
