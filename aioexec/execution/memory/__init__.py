"""Running items on devices with memory of their own."""
