"""Resource handles: creation by the nodes that own resources, and lookup by the ops that use them.

A handle is a scalar object array that holds the resource itself, on resource edges and on reference edges alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference
from aioexec.ops.common.elementwise import Array
from aioexec.resources.manager import place_of, resource_of_handle

Resource = TypeVar("Resource")


def handle_of(resource: Any) -> Array:
    """Return a handle to a resource."""
    handle = np.empty((), np.object_)
    handle[()] = resource
    return handle


def maker(
    kind: type[Resource],
    make: Callable[..., Resource],
    check: Callable[[Resource, Resource], None] = lambda found, wanted: None,
) -> Reference:
    """Return the kernel of a node that owns a resource: creates it at first use, or finds the one with its shared name.

    Args:
        make: `make(context, name, *inputs)` creates the resource.
        check: called with the resource found and one that the node would create; raises if they differ.
    """

    def kernel(context: KernelContext) -> Compute:
        place = place_of(context.attrs, context.node_name, context.attrs.get("use_node_name_sharing", False))
        handle = handle_of(None)  # one handle per resource, so that the cache of `finder` recognises it

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
    """Return a function from a handle to its resource, which checks kind and attributes once per handle."""
    device = context.device
    known: Any = None
    checked: Resource | None = None

    def find(handle: Any) -> Resource:
        nonlocal known, checked
        if handle is known and checked is not None:
            return checked
        found = resource_of_handle(kind, handle, device)
        check(found)
        known, checked = handle, found
        return found

    return find
