"""What a program can be told about its own run."""
