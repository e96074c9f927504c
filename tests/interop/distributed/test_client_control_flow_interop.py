"""Conditionals and loops on servers."""

from tests.interop.behaviours.test_control_flow_interop import *  # noqa: F403  # the same programs, another `agree`
