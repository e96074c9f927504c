"""Common parts of the subcommands of `aioexec`: examples, argument types, JSON and tables, progress, one-line errors."""
