"""The public names of the package by topic; `aioexec` has them all."""
