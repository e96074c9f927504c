"""Close of sessions on servers."""

from tests.interop.behaviours.test_closing_interop import *  # noqa: F403  # the same programs, another `agree`

del test_a_reset_closes_the_live_sessions  # noqa: F821  # see test_client_life_interop
del test_sessions_made_after_a_reset_start_anew  # noqa: F821  # likewise
del test_a_handle_is_fed_where_the_tensor_is_wanted  # noqa: F821  # the tensor is in another process
