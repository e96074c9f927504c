"""Registers the kernels for GPUs when a session with GPUs plans: they need most ops and the compiler, which take a moment."""

from __future__ import annotations

import threading

from aioexec.graph.kernels.kernel_registry import has_kernels_for

DEVICE_TYPE = "GPU"
_lock = threading.Lock()


def ensure_kernels() -> None:
    """Register the kernels, unless any are registered; imports modules, so not for the event loop."""
    with _lock:
        if not has_kernels_for(DEVICE_TYPE):
            from aioexec.devices.cuda.registration import register_gpu_kernels

            register_gpu_kernels()
