"""Feeds and fetches, on servers."""

from tests.interop.behaviours.test_feeds_and_fetches_interop import *  # noqa: F403  # the same programs, another `agree`

del test_variables_live_across_the_runs_of_a_session  # noqa: F821  # and across sessions, on a server
