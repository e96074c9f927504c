"""aioexec: TensorFlow 1.x's session runtime for asyncio.

The names are TensorFlow 1.x's; a program is ported by changing the import and awaiting `session.run`. This module is the
wiring: it defines the public names, and registers operators, `eval` and protos with the graph package, which imports none of
them.

Imports: the engine is imported here, so that no event loop is blocked by it later; the planner and the layout of programs in
their threads, when a session plans or builds; op families, gradients, protos and the training stack when a program uses them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if "free-threading" in sys.version:
    raise ImportError(
        "aioexec needs a build of CPython with the global interpreter lock, which protects what its event loops and workers "
        "share; this is a free-threaded build"
    )

from aioexec.devices.builtin import register_builtin_factories
from aioexec.distributed.client.grpc_factory import register_grpc_sessions
from aioexec.graph import operators, registry, wiring
from aioexec.lazy_names import deferred, public_names
from aioexec.names.op_modules import OP_MODULES
from aioexec.ops.common import (
    kernel_work as _kernel_work,  # noqa: F401  (of rows)
    list_uses as _list_uses,  # noqa: F401  (of rows)
    retired as _retired,  # noqa: F401  (of rows)
    stored_work as _stored_work,  # noqa: F401  (of rows)
)
from aioexec.sessions.direct_factory import register_direct_sessions
from aioexec.sessions.evaluation import eval_tensor, run_operation

if TYPE_CHECKING:
    from aioexec import (
        app as app,
        batching as batching,
        bitwise as bitwise,
        blocking as blocking,
        compat as compat,
        contrib as contrib,
        data as data,
        debugging as debugging,
        distribute as distribute,
        distributions as distributions,
        dtypes as dtypes,
        errors as errors,
        estimator as estimator,
        feature_column as feature_column,
        flags as flags,
        gfile as gfile,
        graph_util as graph_util,
        image as image,
        initializers as initializers,
        io as io,
        keras as keras,
        layers as layers,
        linalg as linalg,
        logging as logging,
        lookup as lookup,
        losses as losses,
        manip as manip,
        math as math,
        metrics as metrics,
        nest as nest,
        nn as nn,
        python_io as python_io,
        queue as queue,
        random as random,
        raw_ops as raw_ops,
        resource_loader as resource_loader,
        saved_model as saved_model,
        sets as sets,
        signal as signal,
        sparse as sparse,
        spectral as spectral,
        strings as strings,
        summary as summary,
        test as test,
        tpu as tpu,
        train as train,
        version as version,
    )
    from aioexec.names.flow import *
    from aioexec.names.graphs import *
    from aioexec.names.messages import *
    from aioexec.names.state import *
    from aioexec.names.tensors import *
    from aioexec.ops.array import filling as _filling, slicing as _slicing
    from aioexec.ops.control_flow import dependencies as _control
    from aioexec.saved_model.loaded_model import load as load
    from aioexec.sessions.conversions import (
        register_session_run_conversion_functions as register_session_run_conversion_functions,
    )
    from aioexec.sessions.interactive import InteractiveSession as InteractiveSession
    from aioexec.sessions.session import Session as Session
    from aioexec.shapes import Dimension as Dimension, TensorShape as TensorShape

    range = _filling.range_
    slice = _slicing.slice_
    tuple = _control.tuple_
else:
    __getattr__, __dir__ = public_names(__name__)

__version__ = "0.1.0"

newaxis = None

register_builtin_factories()
register_direct_sessions()
register_grpc_sessions()
registry.import_on_lookup(OP_MODULES)
operators.OPERATORS.load = lambda: import_module("aioexec.ops.linalg.operators").OPERATORS_TABLE
wiring.EVALUATORS.update(
    eval=eval_tensor,
    run=run_operation,
    node_def=deferred("aioexec.graph.io.graphdef_export", "node_def"),
    graph_def=deferred("aioexec.graph.io.graphdef_export", "graph_to_graph_def"),
    equal_functions=deferred("aioexec.graph.io.function_def_export", "functions_are_equal"),
    gradient_of_call=deferred("aioexec.gradients.calls", "gradient_of_call"),
)
registry.complete("SymbolicGradient", bodies=deferred("aioexec.gradients.calls", "symbolic_gradient_bodies"))
for _call in ("PartitionedCall", "StatefulPartitionedCall"):
    registry.complete(_call, gradient=wiring.EVALUATORS["gradient_of_call"])
for _chosen in ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"):
    registry.complete(_chosen, gradient=deferred("aioexec.gradients.bodies", "gradient_of_bodies"))

# There is a function `gradients` and a package of that name, which the import system binds at its first import. That happens
# here, so that the lazily imported function replaces it.
import_module("aioexec.gradients")
del globals()["gradients"]
