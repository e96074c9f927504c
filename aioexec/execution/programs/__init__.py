"""Programs: binding one to arrays, running it, its memory and its parallel regions."""
