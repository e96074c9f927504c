"""Thread pools of devices and sessions: shared in the process, with reference counts.

A pool ends when its last holder releases it, so an idle process has no threads. Sessions that request the same number of
threads share one pool; in TensorFlow the first session of a process decides for all later ones, regardless of their options.
A session's inter-op pool is its client device's intra-op pool where both have the same size: no worker ever waits for
another, so two pools would only be twice as many threads as processors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from aioexec.devices.options import DeviceOptions
from aioexec.devices.threads.numa import NumaNode
from aioexec.devices.threads.workers import Workers, processors
from aioexec.errors import InvalidArgumentError

NAME = "aioexec-worker"

_lock = threading.Lock()  # guards the three tables
_holders: dict[Workers, int] = {}  # the reference count of each open pool
_shared: dict[tuple[str, int], Workers] = {}  # the shared ones among them, by name and count
_named: dict[
    str, tuple[int, int]
] = {}  # global name -> threads requested and threads made; entries are never removed


def acquire_pool(name: str, count: int, prepare: Callable[[], None] | None = None) -> Workers:
    """Hold the shared pool of that name and size; `prepare` is the first call of its threads."""
    with _lock:
        workers = _shared.get((name, count))
        if workers is None:
            workers = _shared[name, count] = Workers(count, name, prepare)
        _holders[workers] = _holders.get(workers, 0) + 1
    return workers


def own_pool(name: str, count: int) -> Workers:
    """Hold a new pool, which is not shared unless its holder passes it on."""
    workers = Workers(count, name)
    with _lock:
        _holders[workers] = 1
    return workers


def hold_pool(workers: Workers) -> Workers:
    """Add a reference to a pool that the caller holds; a pool not made by this module has one reference."""
    with _lock:
        _holders[workers] = _holders.get(workers, 1) + 1
    return workers


def dismiss_pool(workers: Workers) -> None:
    """Release a reference to a pool; the last one dismisses its threads, without waiting for them."""
    with _lock:
        left = _holders.pop(workers, 1) - 1
        if left:
            _holders[workers] = left
            return
        if _shared.get((workers.name, workers.count)) is workers:
            del _shared[workers.name, workers.count]
    workers.dismiss()


def intra_op_threads(options: DeviceOptions, node: NumaNode | None = None) -> int:
    """Threads of a device: from the options, from TF_NUM_INTRAOP_THREADS, or one for each processor (of the node)."""
    default = processors() if node is None else len(node.usable())
    return max(options.intra_op_threads, 0) or max(_environment("TF_NUM_INTRAOP_THREADS"), 0) or default


def inter_op_threads(options: DeviceOptions) -> int:
    """Threads for heavy kernels: from the options, from TF_NUM_INTEROP_THREADS, or one for each processor; negative: one."""
    asked = options.inter_op_threads or _environment("TF_NUM_INTEROP_THREADS")
    return 1 if asked < 0 else asked or processors()


def intra_op_pools(options: DeviceOptions, nodes: Sequence[NumaNode | None]) -> list[Workers]:
    """Hold a pool for each of a session's devices, given the NUMA node to which each is bound, or None.

    They are shared in the process; one for all devices of the session with `use_per_session_threads`; one for each device
    where TF_OVERRIDE_GLOBAL_THREADPOOL is set. Only shared ones are bound to nodes.
    """
    override = os.environ.get("TF_OVERRIDE_GLOBAL_THREADPOOL", "").lower() in ("1", "true")
    pools: list[Workers] = []
    for node in nodes:
        if override or (options.use_per_session_threads and not pools):
            pools.append(own_pool(NAME, intra_op_threads(options)))
        elif options.use_per_session_threads:
            pools.append(hold_pool(pools[0]))
        elif node is None:
            pools.append(acquire_pool(NAME, intra_op_threads(options)))
        else:
            name = f"{NAME}-numa{node.number}"
            pools.append(acquire_pool(name, intra_op_threads(options, node), partial(_bind, node)))
    return pools


def inter_op_pool(options: DeviceOptions, device_pool: Workers) -> Workers:
    """Hold the pool for the heavy kernels of a session's steps, `device_pool` being its client device's.

    A negative number of threads is one thread of the session's own: its heavy kernels go one at a time.
    """
    count = inter_op_threads(options)
    asked = options.inter_op_threads or _environment("TF_NUM_INTEROP_THREADS")
    if asked < 0:
        return own_pool(f"{NAME}-serial", 1)
    if count == device_pool.count:
        return hold_pool(device_pool)
    if options.use_per_session_threads:
        return own_pool(f"{NAME}-inter-op", count)
    return acquire_pool(f"{NAME}-inter-op", count)


def named_pool(global_name: str, num_threads: int, options: DeviceOptions) -> Workers:
    """Hold an inter-op pool as a ThreadPoolOptionProto describes it: shared under its name, or new if it has none.

    Zero threads: as many as `inter_op_threads`.

    Raises:
        InvalidArgumentError: the name was used before, maybe by a session long closed, for another number of threads.
    """
    count = max(num_threads, 0) or inter_op_threads(options)
    if not global_name:
        return own_pool(f"{NAME}-inter-op", count)
    with _lock:
        asked, given = _named.setdefault(global_name, (num_threads, count))
    if asked != num_threads:
        raise InvalidArgumentError(
            f"session inter-op thread pool {global_name!r} already exists with a different number of threads: "
            f"expected {asked}, got {num_threads}"
        )
    return acquire_pool(f"{NAME}-pool-{global_name}", given)


def _bind(node: NumaNode) -> None:
    """Bind the calling thread to a node's processors, as far as the system permits."""
    with suppress(OSError):
        os.sched_setaffinity(0, node.usable())


def _environment(variable: str) -> int:
    """A number from the environment; 0 if it is not one."""
    try:
        return int(os.environ.get(variable, "0"))
    except ValueError:
        return 0
