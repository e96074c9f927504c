"""Ops of variables: creation, reads and assignments, as references (VariableV2, Assign) and as resources (VarHandleOp).

Both kinds of ops create a `resources.variable.Variable`, which is carried by reference edges and resource handles. The engine
recognises these ops by role: reads become aliases, and writes go to the variable's next buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KeepingKernel,
    KernelContext,
    Launches,
    Native,
    Operand,
    Role,
    Spec,
    plain,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch, expression, fill_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.state.update_rows import NUMBERS
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

ALL = frozenset({"float32", "float64", "int32", "int64", "bool"})

# Creation


def _create_variable(context: KernelContext) -> Compute:
    """Return the variable of that name in the session's container, creating it at first use."""
    attrs = context.attrs
    dims: Dims = attrs["shape"]
    name = attrs["shared_name"] or context.node_name

    def find() -> Variable:
        found = context.resources.lookup_or_create(
            Variable, attrs["container"], name, lambda: Variable(name, attrs["dtype"], dims)
        )
        if found.dtype != attrs["dtype"] or not shapes.compatible(found.dims, dims):
            raise InvalidArgumentError(
                f"variable {name!r} is shared with another node: expected {attrs['dtype'].name} of shape "
                f"{shapes.describe(dims)}, it is {found.dtype.name} of shape {shapes.describe(found.dims)}"
            )
        return found

    return find


def _declared_shape(context: ShapeContext) -> Sequence[Dims]:
    return [context.attrs["shape"]]


def _old_declared_shape(context: ShapeContext) -> Sequence[Dims]:
    """Return the declared shape: for the op of version 1, a scalar shape means unknown."""
    return [context.attrs["shape"] or None]


for _name, _rule in (("VariableV2", _declared_shape), ("Variable", _old_declared_shape)):
    register(
        f"{_name}() -> (ref:Ref(dtype)) [shape:shape; dtype:type; container:string=''; shared_name:string='']"
        " {stateful}",
        shape=_rule,
        kernel=_create_variable,
        gradient=NOT_DIFFERENTIABLE,
        role=Role.VARIABLE,
    )

register(
    "VarHandleOp() -> (resource:resource) [container:string=''; shared_name:string=''; debug_name:string='';"
    " dtype:type; shape:shape; allowed_devices:list(string)=[]] {stateful}",
    shape=lambda context: [()],
    kernel=_create_variable,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.VARIABLE,
)

# Reading


def _read(context: KernelContext) -> Compute:
    dtype = context.attrs["dtype"]

    def read(variable: Variable) -> Array:
        if variable.dtype != dtype:
            raise InvalidArgumentError(
                f"variable {variable.name!r} is read as {dtype.name}, but it is {variable.dtype.name}"
            )
        return variable.read()

    return read


register(
    "ReadVariableOp(resource:resource) -> (value:dtype) [dtype:type] {stateful}",
    shape=lambda context: [context.variable(0)],
    kernel=_read,
    gradient=lambda op, dy: [dy],
    role=Role.READ,
    reads=(0,),
)


def _shape_of_content(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0].numpy
    return lambda variable: np.array(variable.require().shape, dtype)


def _bind_shape(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches:
    size = outputs[0].dtype.itemsize
    rows = [
        fill_launch(dim, Operand("output", 0, k * size), (), (), outputs[0].dtype.name)
        for k, dim in enumerate(inputs[0].shape)
    ]
    return Launches(tuple(row for row in rows if row is not None))


def _rank_as_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = context.variable(0)
    return [(None,) if dims is None else (len(dims),)]


register(
    "VariableShape(input:resource) -> (output:out_type) [out_type:type{int32|int64}=int32] {stateful}",
    shape=_rank_as_shape,
    kernel=_shape_of_content,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_shape),
    reads=(0,),
)

for _signature in (
    "IsVariableInitialized(ref:Ref(dtype)) -> (is_initialized:bool) [dtype:type] {allows_uninit}",
    "VarIsInitializedOp(resource:resource) -> (is_initialized:bool) {stateful}",
):
    register(
        _signature,
        shape=lambda context: [()],
        kernel=plain(lambda variable: np.bool_(variable.is_initialized)),
        gradient=NOT_DIFFERENTIABLE,
        reads=(0,),
    )

register(
    "DisableCopyOnRead(resource:resource) -> () {stateful}",
    shape=lambda context: [],
    kernel=plain(lambda variable: None),  # here an assignment never changes an array that was read
    gradient=NOT_DIFFERENTIABLE,
    reads=(0,),
)


def _destroy(context: KernelContext) -> Compute:
    ignore: bool = context.attrs["ignore_lookup_error"]

    def destroy(variable: Variable) -> None:
        """Free the content. Plans keep the variable itself, and a later assignment initialises it again."""
        if not variable.is_initialized and not ignore:
            raise NotFoundError(f"Resource {variable.name!r} does not exist")
        variable.buffer = variable.spare = None

    return destroy


register(
    "DestroyResourceOp(resource:resource) -> () [ignore_lookup_error:bool=true] {stateful}",
    shape=lambda context: [],
    kernel=_destroy,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.UPDATE,
    writes=(0,),
)

# Assigning


def _assign(context: KernelContext) -> Compute:
    validate, is_ref = context.attrs["validate_shape"], bool(context.output_dtypes)

    def assign(variable: Variable, value: Array) -> Variable | None:
        variable.assign(value, validate)
        return variable if is_ref else None

    def keep(variable: Variable, value: Array) -> Variable | None:
        variable.keep(value, validate)
        return variable if is_ref else None

    return KeepingKernel(assign, keep, 1)


def _bind_assign(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    state, value = inputs
    if state.shape != value.shape or state.dtype != value.dtype or value.dtype.itemsize > 8:
        return None
    strides = c_strides(value.shape, value.dtype.itemsize)
    row = copy_launch(
        Operand("input", 1), strides, Operand("state", 0), strides, value.shape, value.dtype.itemsize
    )
    return Launches(() if row is None else (row,))


def _assign_shape(context: ShapeContext) -> Sequence[Dims]:
    ref, value = context.inputs
    return [shapes.merge(ref, value) if context.attrs["validate_shape"] else value]


register(
    "Assign(ref:Ref(T), value:T) -> (output_ref:Ref(T)) [T:type; validate_shape:bool=true; use_locking:bool=true]"
    " {allows_uninit}",
    shape=_assign_shape,
    kernel=_assign,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_assign),
    role=Role.UPDATE,
    writes=(0,),
)


def _check_against_handle(context: ShapeContext) -> Sequence[Dims]:
    shapes.merge(context.variable(0), context.inputs[1])
    return []


register(
    "AssignVariableOp(resource:resource, value:dtype) -> () [dtype:type; validate_shape:bool=false] {stateful}",
    shape=_check_against_handle,
    kernel=_assign,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_assign),
    role=Role.UPDATE,
    writes=(0,),
)

# Adding and subtracting


def _same_shape(variable: Variable, value: Array) -> Array:
    present = variable.require()
    if value.dtype != present.dtype:
        raise InvalidArgumentError(
            f"variable {variable.name!r} is {present.dtype}, it cannot be updated with {value.dtype}"
        )
    if value.shape != present.shape:
        raise InvalidArgumentError(
            f"variable {variable.name!r} of shape {shown(present.shape)} cannot be updated with a tensor of shape "
            f"{shown(value.shape)}: the shapes must be equal"
        )
    return present


def _change_by(ufunc: np.ufunc) -> Any:
    def kernel(context: KernelContext) -> Compute:
        passes_on = bool(context.output_dtypes)

        def change(variable: Variable, value: Array) -> Variable | None:
            fresh = np.asarray(ufunc(_same_shape(variable, value), value))
            variable.update(lambda present: fresh)
            return variable if passes_on else None

        return change

    return kernel


def _bind_change(text: str) -> Native:
    form = expression(text, dtypes=NUMBERS)

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        state, value = inputs
        if state.shape != value.shape or state.dtype != value.dtype or state.dtype.name not in NUMBERS:
            return None
        bound = form.bind(attrs, inputs, ())
        return Launches(bound.rows) if isinstance(bound, Launches) else None

    return Native(bind, NUMBERS)


for _name, _ufunc, _sign in (("AssignAdd", np.add, "+"), ("AssignSub", np.subtract, "-")):
    register(
        f"{_name}(ref:Ref(T), value:T) -> (output_ref:Ref(T)) [T:type@6; use_locking:bool=false]",
        shape=lambda context: [shapes.merge(*context.inputs)],
        kernel=_change_by(_ufunc),
        gradient=NOT_DIFFERENTIABLE,
        native=_bind_change(f"ref, value -> ref: ref = ref {_sign} value"),
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )
    register(
        f"{_name}VariableOp(resource:resource, value:dtype) -> () [dtype:type] {{stateful}}",
        shape=_check_against_handle,
        kernel=_change_by(_ufunc),
        gradient=NOT_DIFFERENTIABLE,
        native=_bind_change(f"ref, value -> ref: ref = ref {_sign} value"),
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )

# Python wrappers


def variable_op_v2(
    shape: Any, dtype: Any, name: str = "Variable", container: str = "", shared_name: str = ""
) -> Tensor:
    """Return a reference to a variable of `shape` (None: unknown) and `dtype`, which is uninitialised until it is assigned."""
    return _variable_op("VariableV2", shape, dtype, name, container, shared_name)


def variable_op(
    shape: Any,
    dtype: Any,
    name: str = "Variable",
    set_shape: bool = True,
    container: str = "",
    shared_name: str = "",
) -> Tensor:
    """`variable_op_v2` by the op of version 1."""
    tensor = _variable_op("Variable", shape, dtype, name, container, shared_name)
    if set_shape:
        tensor.set_shape(shape)
    return tensor


def _variable_op(op_type: str, shape: Any, dtype: Any, name: str, container: str, shared_name: str) -> Tensor:
    attrs = {
        "shape": shapes.TensorShape(shape).plain,
        "dtype": dtypes.as_dtype(dtype).base_dtype,
        "container": container or get_default_graph().default_container,
        "shared_name": shared_name,
    }
    return get_default_graph().create_op(op_type, (), name=name, attrs=attrs).outputs[0]


def var_handle_op(
    dtype: Any, shape: Any, container: str = "", shared_name: str = "", name: str | None = None
) -> Tensor:
    """Return the handle of a resource variable of `shape` and `dtype`."""
    attrs = {
        "shape": shapes.TensorShape(shape).plain,
        "dtype": dtypes.as_dtype(dtype).base_dtype,
        "container": container or get_default_graph().default_container,
        "shared_name": shared_name,
    }
    op = get_default_graph().create_op("VarHandleOp", (), name=name or "VarHandleOp", attrs=attrs)
    return op.outputs[0]


def read_variable_op(resource: Tensor, dtype: Any, name: str | None = None) -> Tensor:
    """Return the content of a resource variable at the time of the read."""
    return apply_op("ReadVariableOp", resource, dtype=dtypes.as_dtype(dtype), name=name)


def assign_variable_op(
    resource: Tensor, value: Any, validate_shape: bool = False, name: str | None = None
) -> Operation:
    """Replace the content of a resource variable.

    Args:
        validate_shape: whether the value must have the shape of the variable; otherwise the variable takes the shape of the
            value.
    """
    return _resource_update("AssignVariableOp", resource, value, name, validate_shape=validate_shape)


def assign_add_variable_op(resource: Tensor, value: Any, name: str | None = None) -> Operation:
    """Add to the content of a resource variable."""
    return _resource_update("AssignAddVariableOp", resource, value, name)


def assign_sub_variable_op(resource: Tensor, value: Any, name: str | None = None) -> Operation:
    """Subtract from the content of a resource variable."""
    return _resource_update("AssignSubVariableOp", resource, value, name)


def _resource_update(op_type: str, resource: Tensor, value: Any, name: str | None, **attrs: Any) -> Operation:
    return apply_no_output_op(op_type, resource, value, name=name, dtype=handle_dtype(resource), **attrs)


def handle_dtype(resource: Tensor) -> Any:
    """Return the dtype of the variable of a handle, found through Identity ops; None if that is not possible."""
    op = resource.op
    while op.row.role is Role.IDENTITY and len(op.inputs) == 1:
        op = op.inputs[0].op
    return op.attrs["dtype"] if op.row.role is Role.VARIABLE else None


def var_is_initialized_op(resource: Tensor, name: str | None = None) -> Tensor:
    """Return whether a resource variable is initialised."""
    return apply_op("VarIsInitializedOp", resource, name=name)


def variable_shape(handle: Tensor, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Return the shape of a resource variable."""
    return apply_op("VariableShape", handle, out_type=out_type, name=name)


def destroy_resource_op(
    resource: Tensor, ignore_lookup_error: bool = True, name: str | None = None
) -> Operation:
    """Free the content of a resource variable."""
    return apply_no_output_op(
        "DestroyResourceOp", resource, ignore_lookup_error=ignore_lookup_error, name=name
    )
