"""Looking into graphs in files: how a step is executed (`aioexec explain`), and what its rows do when (`aioexec trace`)."""
