"""Session hooks, and the timers, reads and writers they share."""
