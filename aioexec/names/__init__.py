"""The public names of the package by topic; `aioexec` exports all of them."""
