"""Control flow, lists of tensors, Python functions in graphs."""

from aioexec.ops.containers.tensor_array_class import TensorArray as TensorArray
from aioexec.ops.control_flow.case import case as case, switch_case as switch_case
from aioexec.ops.control_flow.checks import (
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal,
    assert_integer as assert_integer,
    assert_less as assert_less,
    assert_less_equal as assert_less_equal,
    assert_near as assert_near,
    assert_negative as assert_negative,
    assert_non_negative as assert_non_negative,
    assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal,
    assert_positive as assert_positive,
    assert_proper_iterable as assert_proper_iterable,
    assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least,
    assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype,
    assert_scalar as assert_scalar,
    assert_type as assert_type,
    is_non_decreasing as is_non_decreasing,
    is_strictly_increasing as is_strictly_increasing,
)
from aioexec.ops.control_flow.cond import cond as cond
from aioexec.ops.control_flow.dependencies import (
    group as group,
    no_op as no_op,
    with_dependencies as with_dependencies,
)
from aioexec.ops.control_flow.printing import Assert as Assert, Print as Print
from aioexec.ops.control_flow.smart_cond import smart_cond as smart_cond
from aioexec.ops.control_flow.while_loop import while_loop as while_loop
from aioexec.ops.functions.map_and_scan import foldl as foldl, foldr as foldr, map_fn as map_fn, scan as scan
from aioexec.ops.functions.python import (
    numpy_function as numpy_function,
    py_func as py_func,
    py_function as py_function,
)
