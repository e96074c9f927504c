"""Nodes that are Python functions, on a server in the same process."""

from tests.interop.behaviours.test_python_nodes_interop import *  # noqa: F403  # the same programs, another `agree`
