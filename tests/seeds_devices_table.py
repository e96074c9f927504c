"""What became of the seeds' devices, their factories and their threads; see `seeds_table` for the form."""

from __future__ import annotations

DEVICES = """
DeviceFactory
    . = devices.registry.DeviceFactory
        devices/test_registry.py::test_a_new_device_type_takes_part_once_its_factory_is_registered
    ~DeviceFactory: objects are collected; `aioexec.devices.registry.DeviceFactory`
    Register = devices.registry.DeviceFactory.register
        devices/test_registry.py::test_a_factory_of_a_higher_priority_replaces_the_present_one_and_a_lower_one_is_ignored
        devices/test_registry.py::test_a_second_factory_of_the_same_priority_is_refused
    Register (DeviceFactory*): the same without ownership of a pointer; `aioexec.devices.registry.DeviceFactory.register`
    GetFactory = devices.registry.DeviceFactory.get_factory
        devices/test_registry.py::test_a_type_nobody_registered_has_no_factory_and_the_lowest_priority
        devices/test_registry.py::test_a_type_disabled_later_makes_no_devices_and_says_so_when_asked_for
    AddCpuDevices = devices.registry.DeviceFactory.add_cpu_devices
        devices/test_registry.py::test_a_session_without_a_cpu_device_is_refused
    AddDevices = devices.registry.DeviceFactory.add_devices
        devices/test_registry.py::test_cpu_devices_come_first_and_the_reference_device_only_if_asked_for
        devices/test_registry.py::test_without_a_cpu_factory_there_are_no_devices
    NewDevice = devices.registry.DeviceFactory.new_device
        devices/test_registry.py::test_a_new_device_is_one_numbered_zero_whatever_the_options_count
    ListAllPhysicalDevices = devices.registry.DeviceFactory.list_all_physical_devices
        devices/test_registry.py::test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart
    ListPluggablePhysicalDevices = devices.registry.DeviceFactory.list_pluggable_physical_devices
        devices/test_registry.py::test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart
    GetAnyDeviceDetails = devices.registry.DeviceFactory.get_any_device_details
        devices/test_registry.py::test_details_are_asked_of_the_factory_whose_device_the_index_means
    ListPhysicalDevices = devices.registry.DeviceFactory.list_physical_devices
        devices/test_registry.py::test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart
    GetDeviceDetails = devices.registry.DeviceFactory.get_device_details
        devices/test_registry.py::test_details_are_asked_of_the_factory_whose_device_the_index_means
    CreateDevices = devices.registry.DeviceFactory.create_devices
        devices/test_registry.py::test_a_new_device_type_takes_part_once_its_factory_is_registered
    DevicePriority = devices.registry.DeviceFactory.device_priority
        devices/test_registry.py::test_a_type_nobody_registered_has_no_factory_and_the_lowest_priority
    IsPluggableDevice = devices.registry.DeviceFactory.is_pluggable_device
        devices/test_registry.py::test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart
    IsDeviceFactoryEnabled, TF_ENABLED_DEVICE_TYPES = devices.registry._is_enabled
        devices/test_registry.py::test_a_disabled_type_is_not_registered_and_the_log_says_so
FactoryItem
    . = devices.registry._Registered
        devices/test_registry.py::test_a_factory_of_a_higher_priority_replaces_the_present_one_and_a_lower_one_is_ignored
    factory = devices.registry._Registered.factory
        devices/test_registry.py::test_a_factory_of_a_higher_priority_replaces_the_present_one_and_a_lower_one_is_ignored
    priority = devices.registry._Registered.priority
        devices/test_registry.py::test_a_second_factory_of_the_same_priority_is_refused
    is_pluggable_device = devices.registry._Registered.is_pluggable_device
        devices/test_registry.py::test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart
    device_factories = devices.registry._factories
        devices/test_registry.py::test_the_built_in_factories_may_be_registered_again
    get_device_factory_lock = devices.registry._lock
        devices/test_registry.py::test_a_second_factory_of_the_same_priority_is_refused
Registrar
    dfactory::Registrar, REGISTER_LOCAL_DEVICE_FACTORY = devices.builtin.register_builtin_factories
        devices/test_registry.py::test_the_built_in_factories_may_be_registered_again
    CPU at 60 = devices.builtin.CPU_PRIORITY
        devices/test_registry.py::test_gpu_factories_bring_cpu_devices_that_go_with_them
    GPU at 210 = devices.builtin.register_gpu_factory
        devices/test_registry.py::test_gpu_factories_bring_cpu_devices_that_go_with_them
    GPU-compatible CPU at 70 = devices.builtin.GPU_COMPATIBLE_CPU_PRIORITY
        devices/test_registry.py::test_gpu_factories_bring_cpu_devices_that_go_with_them
ThreadPoolDeviceFactory
    . = devices.cpu.ThreadPoolDeviceFactory
        devices/test_registry.py::test_device_count_says_how_many_cpu_devices_there_are
    CreateDevices = devices.cpu.ThreadPoolDeviceFactory.create_devices
        devices/test_registry.py::test_device_count_says_how_many_cpu_devices_there_are
        devices/test_device.py::test_with_numa_affinity_devices_are_dealt_to_the_nodes
    NUMANumNodes = devices.numa.numa_nodes
        devices/test_numa.py::test_this_machine_has_a_node
GPUCompatibleCPUDeviceFactory
    ., GPUCompatibleCPUDevice = devices.cpu.GPUCompatibleCPUDeviceFactory
        devices/test_registry.py::test_gpu_factories_bring_cpu_devices_that_go_with_them
GPUDeviceFactory
    ., BaseGPUDeviceFactory, GPUDevice, BaseGPUDevice:
        CUDA behind C++; a factory of GPU devices, whoever brings it, has its place at
        `aioexec.devices.builtin.register_gpu_factory`
ThreadPoolDevice
    . = devices.cpu.ThreadPoolDevice
        devices/test_device.py::test_cpu_devices_are_native_and_reference_devices_never
    allocator_, Allocator, ProcessState::GetCPUAllocator:
        NumPy allocates; what programs hold is counted: `aioexec.observability.allocator_stats.AllocatorStats`
    scoped_allocator_mgr_, ScopedAllocatorMgr:
        fuses buffers of collective ops; programs lay all their buffers out at once: `aioexec.planning.buffers`
    memory limit, Bytes = devices.device.MEMORY_LIMIT
        devices/test_device.py::test_a_cpu_device_says_that_it_has_256_mib
    Device::BuildDeviceAttributes = devices.device.DeviceAttributes
        devices/test_device.py::test_every_device_has_an_incarnation_of_its_own_in_64_bits
    DeviceLocality, numa_node = devices.device.DeviceAttributes.numa_node
        devices/test_device.py::test_with_numa_affinity_devices_are_dealt_to_the_nodes
DeviceMgr
    ., StaticDeviceMgr = devices.device_set.DeviceMgr
        devices/test_device_set.py::test_a_manager_finds_devices_by_full_name_and_by_alias
    ListDevices = devices.device_set.DeviceMgr.list_devices
        devices/test_device_set.py::test_a_manager_lists_its_devices_and_counts_them_by_type
DeviceSet
    . = devices.device_set.DeviceSet
        devices/test_device_set.py::test_a_set_finds_the_devices_that_agree_with_a_spec
    AddDevice = devices.device_set.DeviceSet.add_device
        devices/test_device_set.py::test_types_are_ordered_by_priority_then_name_and_anew_when_a_device_is_added
LocalDevice
    . = devices.device.Device
        devices/test_device.py::test_a_closed_device_has_forgotten_its_resources_and_ended_its_threads
    InfoAboutUnusedCPUFeatures: programs are compiled for the processor they run on: `aioexec.devices.jit.target`
    use_global_threadpool_, set_use_global_threadpool = devices.pools.intra_op_pools
        devices/test_pools.py::test_on_request_the_devices_of_one_session_share_a_pool_of_their_own
    OverrideGlobalThreadPoolFromEnvironment = devices.pools.intra_op_pools
        devices/test_pools.py::test_the_environment_can_give_each_device_a_pool_of_its_own
    global_tp_info_ = devices.pools._shared
        devices/test_pools.py::test_devices_of_all_sessions_share_a_pool_of_the_size_they_ask_for
        devices/test_pools.py::test_the_threads_of_a_numa_node_run_on_its_processors
    global_tp_mu_ = devices.pools._lock
        devices/test_pools.py::test_event_loops_in_several_threads_share_the_threads_of_one_pool
    owned_tp_info_ = devices.pools.own_pool
        devices/test_pools.py::test_on_request_the_devices_of_one_session_share_a_pool_of_their_own
    DeviceBase, set_tensorflow_cpu_worker_threads, set_eigen_cpu_device = devices.device.Device.workers
        devices/test_device.py::test_a_device_gives_its_pool_back_once_however_often_it_is_closed
    eigen_cpu_devices_:
        a device for every number of threads, so that an expression may use fewer;
        here a row is cut into strands, which who is idle takes:
        `aioexec.execution.forks`
EigenThreadPoolInfo
    . = devices.pools.acquire_pool
        devices/test_pools.py::test_devices_of_all_sessions_share_a_pool_of_the_size_they_ask_for
    intra_op_parallelism_threads, NumIntraOpThreadsFromEnvironment = devices.pools.intra_op_threads
        devices/test_pools.py::test_intra_op_threads_are_as_asked_then_as_the_environment_says_then_one_a_processor
    MaxParallelism = devices.workers.processors
        devices/test_workers.py::test_there_is_at_least_one_processor
        devices/test_pools.py::test_a_device_of_one_numa_node_has_a_thread_for_each_of_its_processors
    eigen_worker_threads_, num_threads, workers = devices.workers.Workers
        devices/test_workers.py::test_no_more_threads_than_allowed
    eigen_device_, Eigen::ThreadPoolDevice:
        a library of templates over a pool; rows are cut into strands: `aioexec.planning.lanes`
    eigen_allocator_, EigenAllocator:
        an adapter between two C++ interfaces; scratch memory is part of a program: `aioexec.planning.buffers`
    disable_thread_spinning, low_latency_hint, allow_spinning_:
        threads look for work for a while, without the interpreter, then sleep: `aioexec.devices.patient_queue`
ThreadPool
    . = devices.workers.Workers
        devices/test_workers.py::test_a_job_runs_on_a_thread_of_the_pool_and_gives_its_result
    eigen_threadpool_, underlying_threadpool_, AsEigenThreadPool, threadpool_device_:
        three C++ views of one pool; `aioexec.devices.workers.Workers` is the only one
    ThreadOptions, numa_node = devices.pools.acquire_pool
        devices/test_pools.py::test_the_threads_of_a_numa_node_run_on_its_processors
ThreadPoolTempl
    . = devices.workers.Workers.__init__
        devices/test_workers.py::test_jobs_of_one_thread_run_in_the_order_they_came
    CreateThread = devices.workers.Workers._start_thread
        devices/test_workers.py::test_no_more_threads_than_allowed
    WorkerLoop = devices.workers.Workers._work
        devices/test_workers.py::test_an_idle_thread_keeps_nothing_of_its_last_job
    num_threads_ = devices.workers.Workers.count
        devices/test_workers.py::test_no_more_threads_than_allowed
    done_, cancelled_ = devices.workers.Workers.closed
        devices/test_workers.py::test_close_runs_what_is_queued_and_may_be_called_twice
    thread_data_, all_coprimes_, waiters_, global_steal_partition_, blocked_, spinning_, ec_:
        work stealing between queues without locks; one queue serves all threads, which are few:
        `aioexec.devices.workers.Workers`
    SetStealPartition, ComputeCoprimes: as above; `aioexec.devices.workers.Workers.submit`
    init_barrier_, per_thread_map_:
        thread-local storage for compilers without it; `aioexec.devices.workers.Workers.start_all`
EigenEnvironment
    .: tells a thread pool how to make threads and tasks; `aioexec.devices.workers.Workers` makes its own
    CreateThread = devices.workers.Workers._start_thread
        devices/test_workers.py::test_no_more_threads_than_allowed
    CreateTask, Task, TaskImpl = devices.workers.Job
        devices/test_workers.py::test_what_a_job_raises_is_raised_where_it_is_awaited
    ExecuteTask = devices.workers.Job.run
        devices/test_workers.py::test_done_is_called_for_a_job_nobody_awaits
    Context, ContextKind, WithContext = execution.step.Step.run_in_worker
        execution/test_async_kernels.py::test_context_variables_of_the_caller_reach_kernels_on_the_loop_and_on_workers
    ScopedFlushDenormal = devices.jit.walker
        devices/jit/test_walker.py::test_denormals_are_flushed_inside_and_only_there
    ScopedSetRound:
        CPython and NumPy keep rounding to nearest, and nothing of ours changes it: `aioexec.devices.workers.Workers`
    NUMASetThreadNodeAffinity = devices.pools._bind
        devices/test_pools.py::test_the_threads_of_a_numa_node_run_on_its_processors
    tracing::EventCollector, ScopedRegion, trace_id = execution.trace
        execution/test_trace.py::test_what_moved_to_a_worker_is_told_by_its_thread
    env_, thread_options_, name_ = devices.workers.Workers.name
        devices/test_pools.py::test_a_named_pool_is_shared_by_name
"""
