"""A GPU of this machine, as the devices of all sessions share it: its context, its memory pool, its modules.

`GPUs` makes it when the first device uses it, and ends it with the last one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from aioexec.data_classes import dataclass
from aioexec.devices.cuda import cublaslt
from aioexec.devices.cuda.cublaslt import ProductPlans
from aioexec.devices.cuda.driver import CudaError, Driver, Handle
from aioexec.devices.cuda.launch import Module
from aioexec.devices.cuda.matrix_product import MatrixProduct
from aioexec.errors import FailedPreconditionError, InternalError, OpError, UnavailableError


@dataclass(frozen=True, slots=True)
class Description:
    """What the driver says about a GPU without a context.

    Attributes:
        ordinal: its number among those that the driver shows.
        total_memory: in bytes.
        numa_node: 0 if it is not known.
    """

    ordinal: int
    name: str
    total_memory: int
    pci_bus_id: str
    compute_capability: tuple[int, int]
    numa_node: int

    def text(self, index: int) -> str:
        """TensorFlow's `physical_device_desc` of the device of a number."""
        major, minor = self.compute_capability
        return (
            f"device: {index}, name: {self.name}, pci bus id: {self.pci_bus_id}, "
            f"compute capability: {major}.{minor}"
        )


def described(driver: Driver, ordinal: int) -> Description:
    """Ask the driver about a GPU."""
    return Description(
        ordinal,
        driver.device_name(ordinal),
        driver.total_memory(ordinal),
        driver.pci_bus_id(ordinal),
        driver.compute_capability(ordinal),
        driver.numa_node(ordinal),
    )


class Gpu:
    """A GPU with a context.

    Constant: `driver`, `ordinal`, `context`, `pool`; `products`, the plans of products of matrices. Changing: `lost`, what
    calls say from now on, once its context is unusable; `is_open`, until the last holder has released it. `_lock` guards
    `_texts`, modules by text, which workers load, and `_modules`, the same by module; `_functions` and `_granted` (whether it
    may copy from another GPU) keep answers of the driver.

    Raises:
        FailedPreconditionError: it has no memory pools.
    """

    def __init__(self, driver: Driver, ordinal: int) -> None:
        if not driver.has_pools(ordinal):
            raise FailedPreconditionError(
                f"{driver.device_name(ordinal)} (GPU {ordinal}) has no memory pools, which aioexec needs"
            )
        self.driver = driver
        self.ordinal = ordinal
        self.lost: str | None = None
        self.is_open = True
        self._lock = threading.Lock()
        self._texts: dict[str, Handle] = {}
        self._modules: dict[Module, Handle] = {}
        self._functions: dict[tuple[Module, str, int], Handle] = {}
        self._granted: dict[int, bool] = {}
        self.products = ProductPlans(cublaslt.library())
        self.context = driver.retain_context(ordinal)
        try:
            driver.enter(self.context)
            self.pool = driver.create_pool(ordinal, driver.total_memory(ordinal))
        except CudaError:
            driver.release_context(ordinal)
            raise

    def close(self) -> None:
        """Give everything back; may wait for the GPU."""
        driver, self.is_open = self.driver, False
        with contextlib.suppress(CudaError):  # an unusable context is released all the same
            driver.enter(self.context)
            self.products.close()
            for module in self._texts.values():
                driver.unload_module(module)
            driver.destroy_pool(self.pool)
        with contextlib.suppress(CudaError):
            driver.release_context(self.ordinal)

    def located(self, error: CudaError, device: str) -> OpError:
        """The error of work or of a call on a device; the GPU is lost if its context is unusable."""
        if not error.is_sticky:
            return error
        if self.lost is not None:
            return UnavailableError(self.lost)
        self.lost = f"{device} was lost: its GPU reported {error.result} before"
        return InternalError(
            f"the GPU of {device} failed with {error} during this work, or work that was given at about the same time; "
            f"the device is lost (with CUDA_LAUNCH_BLOCKING=1 the error names the very kernel)"
        )

    def free(self, pointer: int, stream: Handle) -> None:
        """Free memory after the work of a stream, or now if the stream is None; whatever this thread is doing."""
        if not self.is_open:
            return
        with contextlib.suppress(CudaError), self.driver.inside(self.context):
            if stream is None:
                self.driver.free_now(pointer)
            else:
                self.driver.free(pointer, stream)

    # Modules, and plans of products

    def has(self, needed: Module | MatrixProduct) -> bool:
        """Whether a module is loaded, without a look at its text, which may not be there yet; or a product has a plan."""
        return needed in (self._modules if isinstance(needed, Module) else self.products)

    def prepare(self, needed: Module | MatrixProduct) -> None:
        """Load a module, or make the plan of a product, unless that was done; takes up to seconds.

        Raises:
            InternalError: the driver refuses the module.
        """
        if isinstance(needed, Module):
            self._load_module(needed)
            return
        self.driver.enter(self.context)
        if not self.products.make(needed):
            self._load_module(needed.kernel)

    def _load_module(self, module: Module) -> None:
        text = module.ptx
        with self._lock:
            if text not in self._texts:
                self._texts[text] = self._load(module.name, text)
            self._modules[module] = self._texts[text]

    def _load(self, name: str, text: str) -> Handle:
        self.driver.enter(self.context)
        try:
            return self.driver.load_module(text)
        except CudaError as error:
            if error.is_sticky:
                raise
            raise InternalError(f"the GPU's driver refuses the kernels of {name}: {error}") from error

    def function(self, module: Module, entry: str, shared_bytes: int) -> Handle:
        """A kernel of a loaded module.

        Raises:
            CudaError: it has none of that name, or cannot have so much shared memory.
        """
        key = (module, entry, shared_bytes)
        function = self._functions.get(key)
        if function is None:
            function = self.driver.function(self._modules[module], entry, shared_bytes)
            self._functions[key] = function
        return function

    # Peers

    def can_read(self, source: Gpu) -> bool:
        """Whether this GPU can copy from the memory of another, and let it."""
        if source is self:
            return True
        able = self._granted.get(source.ordinal)
        if able is None:
            able = self.driver.can_access_peer(self.ordinal, source.ordinal)
            if able:
                self.driver.grant_access(source.pool, self.ordinal)
            self._granted[source.ordinal] = able
        return able


class GPUs:
    """The GPUs that a process sees through one driver.

    Constant: `open_driver`. `_lock` guards the driver once it is open or has failed, and the GPUs in use with the number of
    their holders, of which `_released` need theirs no longer.

    Args:
        open_driver: initialises the driver, see `driver.load_driver`; called once.
    """

    def __init__(self, open_driver: Callable[[], Driver]) -> None:
        self._open_driver = open_driver
        self._lock = threading.Lock()
        self._driver: Driver | FailedPreconditionError | None = None
        self._described: list[Description] | None = None
        self._used: dict[int, tuple[Gpu, int]] = {}
        self._released: deque[int] = deque()

    def driver(self) -> Driver:
        """The driver.

        Raises:
            FailedPreconditionError: it cannot be used; says why.
        """
        with self._lock:
            if self._driver is None:
                try:
                    self._driver = self._open_driver()
                except FailedPreconditionError as error:
                    self._driver = error
            if isinstance(self._driver, FailedPreconditionError):
                raise self._driver
            return self._driver

    @property
    def are_known(self) -> bool:
        """Whether `descriptions` answers at once."""
        return self._described is not None or isinstance(self._driver, FailedPreconditionError)

    def descriptions(self) -> list[Description]:
        """All GPUs that the driver shows; no context is made.

        Raises:
            FailedPreconditionError: the driver cannot be used.
        """
        driver = self.driver()
        if self._described is None:
            self._described = [described(driver, k) for k in range(driver.device_count())]
        return self._described

    def hold(self, ordinal: int) -> Gpu:
        """A GPU, for one more holder.

        Raises:
            FailedPreconditionError: its driver or hardware cannot be used.
            CudaError: it has no room for a context, or has failed.
        """
        driver = self.driver()
        with self._lock:
            self._release()
            gpu, holders = self._used.get(ordinal, (None, 0))
            if gpu is None:
                gpu = Gpu(driver, ordinal)
            self._used[ordinal] = gpu, holders + 1
        return gpu

    def release(self, ordinal: int) -> None:
        """A holder needs the GPU no longer; may wait for the GPU.

        Any thread may call this at any point, even in a garbage collection while it has the lock: then the GPU is released by
        the next call.
        """
        self._released.append(ordinal)
        if self._lock.acquire(blocking=False):
            try:
                self._release()
            finally:
                self._lock.release()

    def _release(self) -> None:
        while self._released:
            ordinal = self._released.popleft()
            gpu, holders = self._used.pop(ordinal)
            if holders > 1:
                self._used[ordinal] = gpu, holders - 1
            else:
                gpu.close()
