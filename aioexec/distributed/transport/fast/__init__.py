"""The transport between two aioexec processes: frames on sockets of the event loop."""
