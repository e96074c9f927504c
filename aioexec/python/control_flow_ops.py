"""Control flow under the names of `tensorflow.python.ops.control_flow_ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.names.flow import *  # noqa: F403
    from aioexec.ops.control_flow import dependencies as _dependencies
    from aioexec.ops.control_flow.primitives import (
        control_trigger as control_trigger,
        enter as enter,
        exit as exit,
        loop_cond as loop_cond,
        merge as merge,
        next_iteration as next_iteration,
        ref_enter as ref_enter,
        ref_merge as ref_merge,
        ref_select as ref_select,
        ref_switch as ref_switch,
        switch as switch,
    )

    tuple = _dependencies.tuple_
else:
    __getattr__, __dir__ = public_names(__name__)
