"""The sources of public names, a module for each module that imports them at first use."""
