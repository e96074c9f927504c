"""Tables on servers."""

from tests.interop.behaviours.test_tables_interop import *  # noqa: F403  # the same programs, another `agree`

del test_tables_of_a_session_are_its_own_and_share_by_name  # noqa: F821  # on a server they belong to that
