"""Sessions: what a program awaits."""
