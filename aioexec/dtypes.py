"""Element types: TensorFlow's DType objects, and the conversion of Python values to arrays of them.

There is exactly one `DType` object per type (`as_dtype("float32") is float32`, also after copying and pickling), so identity
and equality agree. `==` also accepts the arguments of `as_dtype`: `float32 == np.float32`.

The rules of conversion (`to_array`) in short:

- bool < integer < floating < complex: a value may move up this order or stay, never down;
- within a class the requested dtype is used, floats are rounded to it, integers must fit;
- without a requested dtype, Python numbers become float32, int32 (int64 if too large), bool and complex128; NumPy arrays and
  scalars keep their dtype, but in a list are treated as Python numbers;
- strings are object arrays of `bytes`; `str` is encoded as UTF-8.
"""

from __future__ import annotations

import builtins
import operator
import reprlib
from collections.abc import Iterator
from typing import Any, Final

import ml_dtypes
import numpy as np

from aioexec.errors import GraphTypeError, GraphValueError

Array = np.ndarray[Any, np.dtype[Any]]

_REF_OFFSET: Final = 100  # DataType enum: a reference type is its base plus this
_NOT_NUMERIC: Final = -1
_BOOL, _INTEGER, _FLOATING, _COMPLEX = range(4)


class DType:
    """One element type, or the reference form of one (`float32_ref`: a reference to a variable of float32).

    `DType(enum)` looks up the object of that number in TensorFlow's DataType enum.
    """

    __slots__ = (
        "_rank",
        "as_datatype_enum",
        "as_numpy_dtype",
        "as_ref",
        "base_dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_numpy_compatible",
        "is_quantized",
        "is_ref",
        "is_unsigned",
        "name",
        "numpy",
    )

    # `_define` sets all fields, once.
    name: str
    as_datatype_enum: Any  # an int; protos accept it as their DataType
    as_numpy_dtype: Any  # scalar type; np.object_ for string, resource, variant; np.dtype for quantized
    numpy: np.dtype[Any]
    base_dtype: DType  # itself, or the referenced type of a reference type
    as_ref: DType  # the reference type of this, or itself
    is_ref: builtins.bool
    is_numpy_compatible: builtins.bool
    is_bool: builtins.bool
    is_integer: builtins.bool  # not quantized
    is_unsigned: builtins.bool
    is_floating: builtins.bool  # bfloat16 too
    is_complex: builtins.bool
    is_quantized: builtins.bool
    _rank: int  # position in bool < integer < floating < complex, _NOT_NUMERIC elsewhere

    def __new__(cls, type_enum: int) -> DType:
        return as_dtype(type_enum)

    @property
    def _is_ref_dtype(self) -> builtins.bool:
        return self.is_ref

    @property
    def _as_ref(self) -> DType:
        return self.as_ref

    @property
    def real_dtype(self) -> DType:
        """The type of the parts of a complex type, otherwise the type itself."""
        return {complex64: float32, complex128: float64}.get(self.base_dtype, self)

    @property
    def min(self) -> Any:
        """Smallest finite value; TypeError where there is none."""
        return self._limits("minimum").min

    @property
    def max(self) -> Any:
        """Largest finite value; TypeError where there is none."""
        return self._limits("maximum").max

    def _limits(self, which: str) -> Any:
        if self.is_floating:
            return ml_dtypes.finfo(self.as_numpy_dtype)  # type: ignore[no-untyped-call]
        if self.is_integer:
            return np.iinfo(self.as_numpy_dtype)
        raise GraphTypeError(f"{self.name} has no {which} value")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of intensities of this type: (0, 1) for float32 and float64, (0, 255) for uint8."""
        if self.base_dtype in (float32, float64):
            return 0, 1
        if self.is_bool:
            return 0, True
        if self.is_integer:
            return 0, self.max
        raise GraphValueError(f"{self.name} has no defined limits")

    @property
    def size(self) -> int:
        """Bytes of one element, 0 if elements have no fixed size."""
        return 0 if self.numpy.hasobject else self.numpy.itemsize

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """True if an `other` may be used where `self` is expected: the same type or a reference to it."""
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except GraphTypeError:
            return False

    def __hash__(self) -> int:
        number: int = self.as_datatype_enum
        return number

    def __int__(self) -> int:
        number: int = self.as_datatype_enum
        return number

    def __repr__(self) -> str:
        return f"ax.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_by_name: Final[dict[str, DType]] = {}
_by_enum: Final[dict[int, DType]] = {}
_by_numpy: Final[dict[np.dtype[Any], DType]] = {}


def _make(enum: int, name: str, numpy_type: Any, rank: int, base: DType | None) -> DType:
    dtype = object.__new__(DType)
    dtype.as_datatype_enum, dtype.name, dtype._rank = enum, name, rank
    dtype.as_numpy_dtype, dtype.numpy = numpy_type, np.dtype(numpy_type)
    dtype.base_dtype, dtype.is_ref = base or dtype, base is not None
    dtype.is_bool, dtype.is_integer = rank == _BOOL, rank == _INTEGER
    dtype.is_floating, dtype.is_complex = rank == _FLOATING, rank == _COMPLEX
    dtype.is_unsigned = dtype.is_integer and dtype.numpy.kind == "u"
    dtype.is_quantized = dtype.numpy.names is not None
    dtype.is_numpy_compatible = (base or dtype).name not in ("resource", "variant")
    _by_name[name] = _by_enum[enum] = dtype
    return dtype


def _define(enum: int, name: str, numpy_type: Any, rank: int = _NOT_NUMERIC, alias: str = "") -> DType:
    dtype = _make(enum, name, numpy_type, rank, None)
    ref = _make(enum + _REF_OFFSET, f"{name}_ref", numpy_type, rank, dtype)
    dtype.as_ref = ref.as_ref = ref
    if alias:
        _by_name[alias], _by_name[f"{alias}_ref"] = dtype, ref
    _by_numpy.setdefault(dtype.numpy, dtype)
    return dtype


float32 = _define(1, "float32", np.float32, _FLOATING, "float")
float64 = _define(2, "float64", np.float64, _FLOATING, "double")
int32 = _define(3, "int32", np.int32, _INTEGER)
uint8 = _define(4, "uint8", np.uint8, _INTEGER)
int16 = _define(5, "int16", np.int16, _INTEGER)
int8 = _define(6, "int8", np.int8, _INTEGER)
string = _define(7, "string", np.object_)
complex64 = _define(8, "complex64", np.complex64, _COMPLEX)
int64 = _define(9, "int64", np.int64, _INTEGER)
bool_ = _define(10, "bool", np.bool_, _BOOL)
qint8 = _define(11, "qint8", np.dtype([("qint8", np.int8)]))
quint8 = _define(12, "quint8", np.dtype([("quint8", np.uint8)]))
qint32 = _define(13, "qint32", np.dtype([("qint32", np.int32)]))
bfloat16 = _define(14, "bfloat16", ml_dtypes.bfloat16, _FLOATING)
qint16 = _define(15, "qint16", np.dtype([("qint16", np.int16)]))
quint16 = _define(16, "quint16", np.dtype([("quint16", np.uint16)]))
uint16 = _define(17, "uint16", np.uint16, _INTEGER)
complex128 = _define(18, "complex128", np.complex128, _COMPLEX)
float16 = _define(19, "float16", np.float16, _FLOATING, "half")
resource = _define(20, "resource", np.object_)
variant = _define(21, "variant", np.object_)
uint32 = _define(22, "uint32", np.uint32, _INTEGER)
uint64 = _define(23, "uint64", np.uint64, _INTEGER)

half, double = float16, float64

float16_ref, float32_ref, float64_ref = float16.as_ref, float32.as_ref, float64.as_ref
half_ref, double_ref, bfloat16_ref = float16_ref, float64_ref, bfloat16.as_ref
int8_ref, int16_ref, int32_ref, int64_ref = int8.as_ref, int16.as_ref, int32.as_ref, int64.as_ref
uint8_ref, uint16_ref, uint32_ref, uint64_ref = uint8.as_ref, uint16.as_ref, uint32.as_ref, uint64.as_ref
complex64_ref, complex128_ref = complex64.as_ref, complex128.as_ref
bool_ref, string_ref, resource_ref, variant_ref = bool_.as_ref, string.as_ref, resource.as_ref, variant.as_ref
qint8_ref, qint16_ref, qint32_ref = qint8.as_ref, qint16.as_ref, qint32.as_ref
quint8_ref, quint16_ref = quint8.as_ref, quint16.as_ref

QUANTIZED_DTYPES: Final = frozenset(
    {qint8, quint8, qint16, quint16, qint32, qint8_ref, quint8_ref, qint16_ref, quint16_ref, qint32_ref}
)

_BY_TYPE: Final[dict[Any, DType]] = {
    float: float32,
    int: int32,
    builtins.bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}

bool = bool_  # TensorFlow's name; annotations of this module say builtins.bool


def as_dtype(value: Any) -> DType:
    """Return the DType for a name, DataType number, NumPy dtype, scalar or Python type, or typed object."""
    if isinstance(value, DType):
        return value
    found: DType | None = None
    if isinstance(value, str):
        found = _by_name.get(value)
    elif isinstance(value, np.dtype):
        found = _from_numpy_dtype(value)
    elif isinstance(value, type):
        found = _BY_TYPE.get(value)
        if found is None and (issubclass(value, np.generic) or value is ml_dtypes.bfloat16):
            found = _from_numpy_dtype(np.dtype(value))
    elif isinstance(value, int) and not isinstance(value, builtins.bool):
        found = _by_enum.get(value)
    elif isinstance(getattr(value, "dtype", None), (DType, np.dtype)):
        return as_dtype(value.dtype)
    if found is None:
        raise GraphTypeError(f"expected a dtype, its name or number, got {reprlib.repr(value)}")
    return found


def _from_numpy_dtype(dtype: np.dtype[Any]) -> DType | None:
    if dtype.kind in "SUT":
        return string
    return _by_numpy.get(dtype if dtype.isnative else dtype.newbyteorder("="))


def infer_dtype(value: Any) -> DType:
    """Return the dtype of a value if none is requested (the rules are at the top of the module)."""
    found = _BY_TYPE.get(type(value))
    if found is not None and found is not int32 and type(value) is not object:
        return found
    if isinstance(getattr(value, "dtype", None), DType):
        return as_dtype(value.dtype)
    return as_dtype(to_array(value).dtype)


def to_array(value: Any, dtype: Any = None) -> Array:
    """Convert a value to an array of `dtype`, or of the dtype inferred for it.

    An array that has the dtype already is returned itself, not copied.

    Raises:
        GraphTypeError: `Expected int32, got 1.5 of type 'float' instead`.
        GraphValueError: a ragged list, None, an integer that does not fit.
    """
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(value), wanted)
    if wanted is not None:
        kind = type(value)  # fast path: numbers that surely fit
        if kind is float and wanted._rank >= _FLOATING and -65504.0 <= value <= 65504.0:
            return np.array(value, wanted.numpy)
        if kind is int and wanted._rank >= _INTEGER and 0 <= value <= 127:
            return np.array(value, wanted.numpy)
        if not wanted.is_numpy_compatible:
            return _boxed(value)
    return _from_python(value, wanted)


def to_array_exactly(value: Any, wanted: DType) -> Array:
    """As `to_array`; also numbers of a wider class, such as 1.0 for an integer, if the dtype has them.

    Raises:
        GraphTypeError, GraphValueError: as `to_array`; a number that the dtype does not have.
    """
    try:
        return to_array(value, wanted)
    except GraphTypeError:
        given = np.asarray(value)
        if given.dtype.kind not in "biufc" or wanted.numpy.kind not in "biufc":
            raise
        if given.dtype.kind == "c" and not given.imag.any():
            given = given.real
        with np.errstate(all="ignore"):
            found = given.astype(wanted.numpy) if given.dtype.kind != "c" else None
            if found is None or not np.array_equal(found.astype(given.dtype), given):
                raise
        return found


def _boxed(value: Any) -> Array:
    box = np.empty((), np.object_)
    box[()] = value
    return box


def _from_numpy(array: Array, wanted: DType | None) -> Array:
    if wanted is not None and wanted is not string and array.dtype == wanted.numpy:
        return array
    if array.dtype.kind in "OSUT":
        return _from_objects(array, string if wanted is None and not array.size else wanted)
    held = as_dtype(array.dtype)
    if wanted is None or held is wanted:
        return np.asarray(array, held.numpy)
    if held._rank == _NOT_NUMERIC or held._rank > _rank_of(wanted):
        raise GraphTypeError(
            f"Expected {wanted.name}, got an array of {held.name} shaped {array.shape} instead"
        )
    return _cast(array, held, wanted)


def _from_python(value: Any, wanted: DType | None) -> Array:
    if value is None:
        raise GraphValueError("Expected a number, string, array or nested list of them, got None")
    first = _first_leaf(value)
    try:
        # NumPy would convert the numbers of a mixed list to strings, and pad every string to the longest.
        array = np.array(value, dtype=np.object_ if isinstance(first, (str, bytes, bytearray)) else None)
    except ValueError as error:
        raise _ragged(value) from error
    if array.dtype.kind in "OSUT":
        return _from_objects(np.array(value, dtype=np.object_), wanted)
    return _from_numbers(array, value, wanted)


def _from_objects(array: Array, wanted: DType | None) -> Array:
    """Convert an object array: strings, large integers, objects convertible to integers, or invalid elements."""
    leaves = array.ravel().tolist()
    if wanted is string or (wanted is None and leaves and isinstance(leaves[0], (str, bytes, bytearray))):
        if array.dtype.kind == "O" and all(type(leaf) is bytes for leaf in leaves):
            return array
        encoded = np.empty(len(leaves), np.object_)
        encoded[:] = [_encode(leaf) for leaf in leaves]
        return encoded.reshape(array.shape)
    numbers = [_number(leaf, wanted) for leaf in leaves]
    packed = np.array(numbers)
    if packed.dtype.kind == "O":
        if wanted is None or wanted._rank < _FLOATING:
            raise _too_large(max(numbers, key=abs), wanted or int64)
        try:
            packed = np.array(numbers, np.complex128 if wanted.is_complex else np.float64)
        except OverflowError:
            raise _too_large(max(numbers, key=abs), wanted) from None
    return _from_numbers(packed.reshape(array.shape), numbers, wanted)


def _from_numbers(array: Array, value: Any, wanted: DType | None) -> Array:
    """Convert NumPy's array of the Python value `value`."""
    held = as_dtype(array.dtype)
    if wanted is None:
        return _cast(array, held, _narrowed(array, held))
    if array.size == 0:
        return np.empty(array.shape, wanted.numpy)
    if held._rank > _rank_of(wanted):
        for leaf in _leaves(value):
            if _rank_of(as_dtype(np.asarray(leaf).dtype)) > _rank_of(wanted):
                raise _unexpected(leaf, wanted)
        return _from_integers(value, wanted)
    return _cast(array, held, wanted)


def _from_integers(value: Any, wanted: DType) -> Array:
    """Convert integers that NumPy, without a dtype, takes for floats: small ones beside those that only uint64 holds."""
    try:
        return np.array(value, wanted.numpy)
    except OverflowError:
        raise _too_large(value, wanted) from None


def _narrowed(array: Array, held: DType) -> DType:
    if held is float64:
        return float32
    if held is int64 and (array.size == 0 or (array.min() >= int32.min and array.max() <= int32.max)):
        return int32
    return held


def _cast(array: Array, held: DType, wanted: DType) -> Array:
    """Convert upwards or within a class; the caller has checked that."""
    target = wanted.numpy
    if wanted.is_quantized:
        return _cast(array, held, as_dtype(wanted.name[1:])).view(target)
    if held.is_integer and wanted.is_integer and array.size and not np.can_cast(held.numpy, target):
        for extreme in (int(array.min()), int(array.max())):
            if not wanted.min <= extreme <= wanted.max:
                raise _too_large(extreme, wanted)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array.astype(target, copy=False)


def _rank_of(dtype: DType) -> int:
    return _INTEGER if dtype.is_quantized else dtype._rank


def _encode(leaf: Any) -> bytes:
    if isinstance(leaf, str):
        try:
            return leaf.encode()
        except UnicodeEncodeError:  # a lone surrogate
            raise GraphValueError(f"Expected text that UTF-8 can encode, got {reprlib.repr(leaf)}") from None
    if isinstance(leaf, (bytes, bytearray)):
        return bytes(leaf)
    raise _ragged(leaf) if isinstance(leaf, (list, tuple, np.ndarray)) else _unexpected(leaf, string)


def _number(leaf: Any, wanted: DType | None) -> Any:
    if isinstance(leaf, (int, float, complex, np.number, np.bool_)):
        return leaf
    if isinstance(leaf, (list, tuple, np.ndarray)):
        raise _ragged(leaf)
    try:
        return operator.index(leaf)
    except TypeError:
        raise _unexpected(leaf, wanted) from None


def _first_leaf(value: Any) -> Any:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, range)):
        for element in value:
            yield from _leaves(element)
    else:
        yield value


def _unexpected(leaf: Any, wanted: DType | None) -> GraphTypeError:
    name = wanted.name if wanted else "a number or string"
    kind = type(leaf).__name__
    return GraphTypeError(f"Expected {name}, got {reprlib.repr(leaf)} of type {kind!r} instead")


def _too_large(value: Any, wanted: DType) -> GraphValueError:
    try:
        shown = reprlib.repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        shown = "an integer of more digits than can be shown"
    return GraphValueError(f"Expected {wanted.name}, got {shown}, which does not fit")


def _ragged(value: Any) -> GraphValueError:
    return GraphValueError(f"Expected lists of equal length at each depth, got {reprlib.repr(value)}")
