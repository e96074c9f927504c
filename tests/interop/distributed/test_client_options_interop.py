"""Options of sessions and runs, on servers."""

from tests.interop.behaviours.test_options_interop import *  # noqa: F403  # the same programs, another `agree`

del test_a_name_and_version_belong_to_one_session_at_a_time  # noqa: F821  # those of a process do not matter to a server
del test_the_devices_of_a_session_are_listed  # noqa: F821  # they are the server's
