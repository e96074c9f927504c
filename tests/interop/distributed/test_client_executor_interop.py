"""Steps and their errors on servers."""

from tests.interop.behaviours.test_executor_interop import *  # noqa: F403  # the same programs, another `agree`
