"""Handles: what nodes that make a resource hand along their edges, and how verbs find the resource behind one.

A handle is a scalar array of the resource itself, whether it goes along a resource edge or a reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference
from aioexec.ops.common.elementwise import Array
from aioexec.resources.manager import place_of, resource_behind

Resource = TypeVar("Resource")


def handle_of(resource: Any) -> Array:
    """What a graph passes along its edges for a resource."""
    handle = np.empty((), np.object_)
    handle[()] = resource
    return handle


def maker(
    kind: type[Resource],
    make: Callable[..., Resource],
    check: Callable[[Resource, Resource], None] = lambda found, wanted: None,
) -> Reference:
    """The kernel of a node that makes a resource: its own, or the one of its shared name; made where it is first asked for.

    Args:
        make: `make(context, name, *inputs)` makes it.
        check: called with the resource and the node; raises if they do not fit.
    """

    def kernel(context: KernelContext) -> Compute:
        place = place_of(context.attrs, context.node_name, context.attrs.get("use_node_name_sharing", False))
        handle = handle_of(None)  # one array for one resource, so that verbs know it again

        def find(*inputs: Any) -> Array:
            nonlocal handle
            found = context.resources.lookup_or_create(
                kind, place.container, place.name, lambda: make(context, place.name, *inputs)
            )
            if handle.item() is not found:
                check(found, make(context, place.name, *inputs))
                handle = handle_of(found)
            return handle

        return find

    return kernel


def finder(
    context: KernelContext, kind: type[Resource], check: Callable[[Resource], None] = lambda found: None
) -> Callable[[Any], Resource]:
    """A function from a handle to its resource, of that kind and checked; once for each that it meets."""
    device = context.device
    known: Any = None
    checked: Resource | None = None

    def find(handle: Any) -> Resource:
        nonlocal known, checked
        if handle is known and checked is not None:
            return checked
        found = resource_behind(kind, handle, device)
        check(found)
        known, checked = handle, found
        return found

    return find
