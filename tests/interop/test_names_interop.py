"""Functions, classes and methods take TensorFlow's arguments: its names, in its order, with its defaults."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec import dtypes
from tests.names_table import (
    ELSEWHERE,
    ERRORS,
    INITIALIZERS,
    KERAS,
    LAYERS,
    LOSSES,
    MESSAGES,
    METRICS,
    MODULES,
    PUBLIC,
    TRAIN,
)

pytestmark = pytest.mark.interop

DIFFERENT = {
    **{
        f"{place}{kind}.close": "takes a grace period as well"
        for place in ("", "python.client.session.")
        for kind in ("Session", "InteractiveSession")
    },
    **{
        f"python.ops.control_flow_ops.{kind}": "made by cond and while_loop"
        for kind in ("CondContext", "WhileContext", "ControlFlowContext")
    },
    "python.framework.function.Defun": "says which keywords there are, and takes further ones",
    "group": "names `name` instead of looking for it among the keywords",
    "convert_to_tensor": "`as_ref` asks for references, `dtype_hint` came with 2.x",
    "Graph.as_graph_def": "`use_pybind11_proto` chooses between two C++ libraries",
    "Graph.create_op": "the op's definition and shapes come from its row; nothing is computed twice",
    "layers.InputSpec": "`allow_last_axis_squeeze`, `name` and `optional` came with 2.x",
    "train.MonitoredTrainingSession": "an argument that was not given is an object of ours",
    "train.MonitoredSession.run": "takes hooks of one run as well",
    "train.SingularMonitoredSession.run": "takes hooks of one run as well",
    **{
        f"train.{kind}Optimizer.apply_gradients": "`skip_gradients_aggregation` came with 2.x"
        for kind in (
            "",
            "GradientDescent",
            "Momentum",
            "Adam",
            "Adagrad",
            "AdagradDA",
            "Adadelta",
            "RMSProp",
            "Ftrl",
            "ProximalAdagrad",
            "ProximalGradientDescent",
        )
    },
    **dict.fromkeys(
        ("train.Optimizer", "train.AdamOptimizer"), "`use_own_namescope_for_non_slot_vars` came with 2.x"
    ),
    "python.ops.template.Template": "`create_graph_function` came with 2.x",
    **{
        f"python.training.slot_creator.{function}": "`copy_xla_sharding` came with 2.x"
        for function in ("create_slot", "create_slot_with_initializer", "create_zeros_slot")
    },
    "train.Server": "can be stopped, and takes settings of security",
    "image.non_max_suppression_padded": "takes the arguments of 1.x; those for batches came with 2.x",
    **dict.fromkeys(
        ("nn.embedding_lookup_sparse", "nn.safe_embedding_lookup_sparse"), "`allow_fast_lookup` came with 2.x"
    ),
    **dict.fromkeys(
        ("random.stateless_normal", "random.stateless_truncated_normal", "random.stateless_uniform"),
        "`alg` came with 2.x",
    ),
    "linalg.matmul": "`output_type`, `grad_a` and `grad_b` came with 2.x",
    "linalg.einsum": "names `name` instead of looking for it among the keywords",
    "nn.top_k": "`index_type` came with 2.x",
    **dict.fromkeys(
        (
            "nn.softmax_cross_entropy_with_logits",
            "nn.sigmoid_cross_entropy_with_logits",
            "nn.sparse_softmax_cross_entropy_with_logits",
        ),
        "begins with the `_sentinel` of 1.x, so that labels and logits are not given by position",
    ),
    **dict.fromkeys(
        ("saved_model.Builder.save", "saved_model.builder.SavedModelBuilder.save"),
        "the image formats of protos came with 2.x",
    ),
    "train.SessionManager": "looks whether a model is ready each second, not each 30",
    **{f"sparse.segment_{kind}": "`sparse_gradient` came with 2.x" for kind in ("mean", "sqrt_n", "sum")},
    **dict.fromkeys(
        (
            *("manip.gather_nd", "manip.scatter_nd"),
            *(f"tensor_scatter_nd_{kind}" for kind in ("add", "max", "min", "sub", "update")),
        ),
        "`bad_indices_policy` came with 2.x",
    ),
    "test.assert_equal_graph_def": "`hash_table_shared_name` came with 2.x",
    "test.get_temp_dir": "takes the beginning of the folder's name",
    "sparse.split": "a missing argument is an object of ours",
    "OpError": "every argument may be left out; more came with 2.x",
    **{
        f"errors.{name}": "an error is raised by its message alone"
        for name in ERRORS
        if name.endswith("Error")
    },
    **{
        f"python.ops.lookup_ops.{kind}": "takes the `shared_name` of 1.x; anonymous tables came with 2.x"
        for kind in ("HashTable", "MutableHashTable", "DenseHashTable", "InitializableLookupTableBase")
    },
    "train.Supervisor": "waits 1 s for a model, not 30: TensorFlow's workers idle half a minute after a restart of their chief",
    "python.client.session._DeviceAttributes": "is the class that devices have, with their NUMA node and description",
    "python.framework.meta_graph.import_scoped_meta_graph": "has a predicate of its own for a default, alike",
    "python.ops.session_ops.TensorHandle": "takes a function that deletes its tensor without waiting",
}
"""Signatures that differ on purpose, each with the reason."""

CONTEXTS = "CondContext WhileContext ControlFlowContext"
NOT_OURS = [
    ("SparseTensor", "with_values set_shape spec_from_value experimental_ref", "came with 2.x"),
    ("Tensor", "ref experimental_ref graph_id ndim", "came with 2.x: tensors here are hashed by identity"),
    ("Tensor", "OVERLOADABLE_OPERATORS", "a table of ours says which operators there are: `graph.operators`"),
    ("IndexedSlices", "consumers", "came with 2.x"),
    ("Graph", "building_function gradient_override_map", "come with functions and their gradients"),
    (
        "Graph",
        "switch_to_thread_local",
        "scopes belong to the running context, a task or a thread, from the start",
    ),
    (
        "Graph",
        "Dismantle get new_operations num_operations op_def_for_type operations",
        "methods of 2.x's C++ class",
    ),
    ("Graph", "experimental_acquire_group_lock", "came with 2.x"),
    ("Operation", "op_def", "the declaration of an op is its row"),
    ("Operation", "traceback traceback_with_start_lines", "a node knows the line that made it: `created_at`"),
    ("Operation", "from_node_def experimental_set_type", "came with 2.x"),
    ("TensorHandle", "to_numpy_array", "is there to raise an error"),
    (
        CONTEXTS,
        "AddInnerOp AddName BuildCondBranch BuildLoop",
        "steps of building that cond and while_loop take",
    ),
    (
        CONTEXTS,
        "grad_state EnterGradientColocation ExitGradientColocation AddForwardLoopCounter AddBackpropLoopCounter"
        " AddBackpropAccumulator AddBackpropIndexedSlicesAccumulator",
        "gradients of loops come with the next stage",
    ),
    (
        "LooperThread SVSummaryThread SVStepCounterThread SVTimerCheckpointThread",
        "getName setName isDaemon setDaemon ident native_id",
        "of threads of the operating system; here these are tasks, which have a name",
    ),
    (CONTEXTS, "IsXLAContext", "there is none: programs are compiled by `devices.jit`"),
]
"""Members that are not here: classes, members, the reason."""

LEFT_OUT = {
    (owner, member)
    for owners, members, _ in NOT_OURS
    for owner in owners.split()
    for member in members.split()
}


def signature(function: Any) -> Any:
    """Names, kinds and defaults of parameters; defaults as plain values."""
    return [
        (called(parameter), parameter.kind.name, plain(parameter.default))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]


def called(parameter: inspect.Parameter) -> str:
    """The name of a parameter, if a caller may need it."""
    is_open = parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return "" if is_open else parameter.name


def plain(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, enum.Enum):
        return default.value
    if isinstance(default, list) and {*default} == {1}:
        return None  # strides and dilations of 1, which None stands for here
    if hasattr(default, "as_numpy_dtype"):
        return dtypes.as_dtype(np.dtype(default.as_numpy_dtype)).name
    if hasattr(default, "get_config"):
        return type(default).__name__, default.get_config()
    return default


def fields_of(owner: type) -> set[str]:
    """The fields of instances of a class and its bases: declared in their bodies, or assigned to `self`."""
    found: set[str] = set()
    for each in owner.__mro__[:-1]:
        if not each.__module__.startswith("aioexec"):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(each)))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def is_field(owner: type, name: str) -> bool:
    found = inspect.getattr_static(owner, name, None)
    return name in fields_of(owner) if found is None else not callable(found)


def differences(name: str, theirs: Any, ours: Any) -> Iterator[str]:
    """The differences between two objects of one name, and between the public members of two classes."""
    if inspect.isclass(theirs):
        yield from of_constructors(name, theirs, ours)
        if inspect.isclass(ours):  # not a scope that is a function here
            yield from of_members(name, theirs, ours)
    elif name not in DIFFERENT and callable(theirs) and signature(theirs) != signature(ours):
        yield f"{name}: expected {signature(theirs)}, got {signature(ours)}"


def of_constructors(name: str, theirs: Any, ours: Any) -> Iterator[str]:
    if (
        inspect.getattr_static(theirs, "__init__") is object.__init__
        or hasattr(theirs, "DESCRIPTOR")
        or name in DIFFERENT
    ):
        return
    expected = signature(theirs)
    if {called for called, *_ in expected} == {""}:  # a class that is tracked hides what it takes
        expected = signature(theirs.__init__)
    if expected != signature(ours):
        yield f"{name}: expected {expected}, got {signature(ours)}"


def of_members(name: str, theirs: type, ours: type) -> Iterator[str]:
    if hasattr(theirs, "DESCRIPTOR") or issubclass(theirs, BaseException | tuple):
        return
    for member in (each for each in dir(theirs) if not each.startswith("_")):
        whole = f"{name}.{member}"
        if (ours.__name__, member) in LEFT_OUT or whole in DIFFERENT:
            continue
        found = inspect.getattr_static(theirs, member)
        if isinstance(found, property) or not callable(getattr(theirs, member)):
            if not is_field(ours, member):
                yield f"{whole}: a field is missing"
        elif not callable(getattr(ours, member, None)):
            yield f"{whole}: a method is missing"
        elif has_signature(getattr(theirs, member)):
            yield from differences(whole, getattr(theirs, member), getattr(ours, member))


def has_signature(function: Any) -> bool:
    """Whether Python can inspect the signature of a function: not if it is bound from C++."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def resolve(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_takes_tensorflows_arguments(tf: Any, name: str):
    # Since 2.x a Tensor is a type of which graphs have their own subclass.
    theirs = (
        importlib.import_module("tensorflow.python.framework.ops").SymbolicTensor
        if name == "Tensor"
        else None
    )
    if name == "SparseTensorValue":
        theirs = tf.compat.v1.SparseTensorValue if hasattr(tf, "compat") else tf.SparseTensorValue

    assert list(differences(name, theirs or getattr(tf, name), getattr(aioexec, name))) == []


@pytest.mark.parametrize("name", TRAIN)
def test_a_name_for_training_takes_tensorflows_arguments(tf: Any, name: str):
    assert list(differences(f"train.{name}", getattr(tf.train, name), getattr(aioexec.train, name))) == []


@pytest.mark.parametrize(
    "name", [*(f"losses.{name}" for name in LOSSES), *(f"metrics.{name}" for name in METRICS)]
)
def test_a_loss_or_metric_takes_tensorflows_arguments(tf: Any, name: str):
    assert list(differences(name, resolve(tf, name), resolve(aioexec, name))) == []


@pytest.mark.parametrize(
    "name", [*(f"initializers.{name}" for name in INITIALIZERS), *(f"keras.{name}" for name in KERAS)]
)
def test_an_initializer_or_regularizer_takes_tensorflows_arguments(tf: Any, name: str):
    assert list(differences(name, resolve(tf, name), resolve(aioexec, name))) == []


@pytest.mark.parametrize("name", [f"{module}.{name}" for module, names in MODULES.items() for name in names])
def test_a_name_of_a_module_takes_tensorflows_arguments(tf: Any, name: str):
    assert list(differences(name, resolve(tf, name), resolve(aioexec, name))) == []


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_takes_tensorflows_arguments(tf: Any, name: str):
    """Of classes the constructor: their other members are Keras's, as far as they are not in `tests/layers`."""
    theirs, ours = getattr(tf.layers, name), getattr(aioexec.layers, name)
    compared = of_constructors if inspect.isclass(theirs) else differences

    assert list(compared(f"layers.{name}", theirs, ours)) == []


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_tensorflows_name_and_code(tf: Any, name: str):
    theirs, ours = getattr(tf.errors, name), getattr(aioexec.errors, name)

    if isinstance(theirs, int):
        assert ours == theirs
    else:
        assert list(differences(f"errors.{name}", theirs, ours)) == []


@pytest.mark.parametrize(("theirs", "ours"), ELSEWHERE.items())
def test_what_tensorflow_keeps_elsewhere_takes_its_arguments(tf: Any, theirs: str, ours: str):
    module, _, name = theirs.rpartition(".")
    found = getattr(importlib.import_module(f"tensorflow.python.{module}"), name)
    owner, _, attribute = f"aioexec.{ours}".rpartition(".")

    assert (
        list(differences(f"python.{theirs}", found, getattr(importlib.import_module(owner), attribute))) == []
    )


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_tensorflows_fields(tf: Any, name: str):
    file = "rpc_options_pb2" if name == "RPCOptions" else "config_pb2"
    theirs = resolve(importlib.import_module(f"tensorflow.core.protobuf.{file}"), name).DESCRIPTOR
    ours = getattr(importlib.import_module("aioexec.formats.protos"), name).DESCRIPTOR

    def numbered(descriptor: Any) -> dict[int, str]:
        return {field.number: field.name for field in descriptor.fields if field.number < 50000}

    known = {number: field for number, field in numbered(theirs).items() if number in numbered(ours)}
    assert known == numbered(ours)
