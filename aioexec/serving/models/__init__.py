"""The models of a server: their folders, versions and states."""
