"""Compiled kernels for lists of tensors in memory: elements of one shape, stored consecutively.

A list that grows has two words, its length and its capacity (both in elements). A list of fixed length has a flag byte for each
element: 0: not set; 1: set; 2: cleared by its last read; 3: not set, but of known shape, so that it reads as zeros (a gradient
with respect to an existing element, or zeros that were read). A further byte is for the list: bit 1 if an element was set, bit
2 if a read determined the shape of the elements. Statuses: 1: index out of range; 2: an element that is not set, was cleared,
or was set before.
"""

from __future__ import annotations

from typing import Any

from aioexec.graph.kernels.kernel import LoopKernel

ZEROS, CLEAR, INFERS, SETS_SHAPE = 1, 2, 4, 8
"""Bits of how to read: an unset element is zeros; reading clears the element; an unset element is zeros once another is set;
this read determines the shape of each element, so unset ones are zeros from now on."""


def reset(length: Any, room: Any) -> int:
    """Make a list without elements and without capacity."""
    length[0] = 0
    room[0] = 0
    return 0


def unset(flags: Any, count: int) -> int:
    """Mark all elements as not set."""
    for i in range(count + 1):
        flags[i] = 0
    return 0


def blank(flags: Any, others: Any, count: int) -> int:
    """Mark elements as zeros where another list has set ones."""
    for i in range(count):
        if flags[i] == 0 and others[i] != 0:
            flags[i] = 3
    flags[count] |= others[count]
    return 0


def reserve(length: Any, room: Any, after: int) -> int:
    """Jump to row `after` if there is capacity for one more element; 0 if there is none."""
    return -1 - after if length[0] < room[0] else 0


def append(storage: Any, length: Any, element: Any, size: int) -> int:
    """Append, where there is capacity."""
    n = length[0]
    for j in range(size):
        storage[n * size + j] = element[j]
    length[0] = n + 1
    return 0


def pop(storage: Any, length: Any, element: Any, size: int) -> int:
    """Take the last element; 1 if there is none."""
    n = length[0] - 1
    if n < 0:
        return 1
    for j in range(size):
        element[j] = storage[n * size + j]
    length[0] = n
    return 0


def count_of(length: Any, count: Any) -> int:
    """A list's length as an operand."""
    count[0] = length[0]
    return 0


def read(storage: Any, flags: Any, index: Any, element: Any, count: int, size: int, how: int) -> int:
    """Read one element."""
    k = int(index[0])
    if k < 0 or k >= count:
        return 1
    is_known = how & 1 != 0 or flags[count] & 2 != 0 or (how & 4 != 0 and flags[count] & 1 != 0)
    if flags[k] == 2 or (flags[k] == 0 and not is_known):
        return 2
    for j in range(size):
        element[j] = storage[k * size + j] if flags[k] == 1 else 0
    if how & 2 != 0:
        flags[k] = 2
    elif flags[k] == 0:
        flags[k] = 3
    return 0


def write(storage: Any, flags: Any, index: Any, element: Any, count: int, size: int, again: int) -> int:
    """Set one element; `again`: an element may be set more than once."""
    k = int(index[0])
    if k < 0 or k >= count:
        return 1
    if flags[k] != 0 and again == 0:
        return 2
    for j in range(size):
        storage[k * size + j] = element[j]
    flags[k] = 1
    flags[count] |= 1
    return 0


def add(storage: Any, flags: Any, index: Any, element: Any, count: int, size: int) -> int:
    """Add to one element, which is zeros if it is not set."""
    k = int(index[0])
    if k < 0 or k >= count:
        return 1
    if flags[k] == 2:
        return 2
    if flags[k] != 1:
        for j in range(size):
            storage[k * size + j] = element[j]
    else:
        for j in range(size):
            storage[k * size + j] += element[j]
    flags[k] = 1
    flags[count] |= 1
    return 0


def read_all(storage: Any, flags: Any, elements: Any, count: int, size: int, how: int) -> int:
    """Read all elements, in order."""
    if how & 8 != 0:
        flags[count] |= 2
    is_known = how & 1 != 0 or flags[count] & 2 != 0 or (how & 4 != 0 and flags[count] & 1 != 0)
    for k in range(count):
        if flags[k] == 2 or (flags[k] == 0 and not is_known):
            return 2
        for j in range(size):
            elements[k * size + j] = storage[k * size + j] if flags[k] == 1 else 0
        if how & 2 != 0:
            flags[k] = 2
        elif flags[k] == 0:
            flags[k] = 3
    return 0


def write_all(storage: Any, flags: Any, elements: Any, count: int, size: int, again: int) -> int:
    """Set all elements, in order."""
    for k in range(count):
        if flags[k] != 0 and again == 0:
            return 2
        for j in range(size):
            storage[k * size + j] = elements[k * size + j]
        flags[k] = 1
    flags[count] |= 1
    return 0


def add_all(storage: Any, flags: Any, elements: Any, count: int, size: int) -> int:
    """Add to all elements, in order; those that are not set are zeros."""
    for k in range(count):
        if flags[k] == 2:
            return 2
        for j in range(size):
            if flags[k] != 1:
                storage[k * size + j] = elements[k * size + j]
            else:
                storage[k * size + j] += elements[k * size + j]
        flags[k] = 1
    flags[count] |= 1
    return 0


def add_list(storage: Any, flags: Any, others: Any, other_flags: Any, count: int, size: int) -> int:
    """Add the elements of another list; those that are not set are zeros."""
    for k in range(count):
        if other_flags[k] == 1:
            for j in range(size):
                if flags[k] != 1:
                    storage[k * size + j] = others[k * size + j]
                else:
                    storage[k * size + j] += others[k * size + j]
            flags[k] = 1
    flags[count] |= other_flags[count]
    return 0


RESERVE = LoopKernel(reserve, ("int64", "int64"), 1, 0)
RESET = LoopKernel(reset, ("int64", "int64"), 0, 0)
UNSET_ALL = LoopKernel(unset, ("uint8",), 1, 0)
BLANKS = LoopKernel(blank, ("uint8", "uint8"), 1, 0)


def append_kernel(dtype: str) -> LoopKernel:
    return LoopKernel(append, (dtype, "int64", dtype), 1, 0)


def pop_kernel(dtype: str) -> LoopKernel:
    return LoopKernel(pop, (dtype, "int64", dtype), 1, 0)


def count_kernel(dtype: str) -> LoopKernel:
    return LoopKernel(count_of, ("int64", dtype), 0, 0)


def read_kernel(dtype: str, index: str) -> LoopKernel:
    return LoopKernel(read, (dtype, "uint8", index, dtype), 3, 0)


def write_kernel(dtype: str, index: str, adds: bool) -> LoopKernel:
    pointers = (dtype, "uint8", index, dtype)
    return LoopKernel(add, pointers, 2, 0) if adds else LoopKernel(write, pointers, 3, 0)


def read_all_kernel(dtype: str) -> LoopKernel:
    return LoopKernel(read_all, (dtype, "uint8", dtype), 3, 0)


def write_all_kernel(dtype: str, adds: bool) -> LoopKernel:
    pointers = (dtype, "uint8", dtype)
    return LoopKernel(add_all, pointers, 2, 0) if adds else LoopKernel(write_all, pointers, 3, 0)


def add_list_kernel(dtype: str) -> LoopKernel:
    return LoopKernel(add_list, (dtype, "uint8", dtype, "uint8"), 2, 0)
