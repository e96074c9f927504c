"""Recurrent networks under the names of `tensorflow.python.ops.rnn`, those of 0.x too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.recurrent import static as _static
    from aioexec.recurrent.dynamic import (
        bidirectional_dynamic_rnn as bidirectional_dynamic_rnn,
        dynamic_rnn as dynamic_rnn,
    )
    from aioexec.recurrent.raw import raw_rnn as raw_rnn
    from aioexec.recurrent.static import (
        static_bidirectional_rnn as static_bidirectional_rnn,
        static_rnn as static_rnn,
        static_state_saving_rnn as static_state_saving_rnn,
    )

    bidirectional_rnn = _static.static_bidirectional_rnn
    rnn = _static.static_rnn
    state_saving_rnn = _static.static_state_saving_rnn
else:
    __getattr__, __dir__ = public_names(__name__)
