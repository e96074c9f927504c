"""What became of each class, function, method and field of the texts this project grew from: sessions and their factories.

`seeds_devices_table` goes on with devices and threads. Form, by indentation:

    Class, or what stands alone
        member = ours, below aioexec
            the test that shows it, below tests; there may be several
        member: why there is none, here or in the next line; what takes its place stands in backquotes

Members that stand alone or mean the class itself are written as a dot.
"""

from __future__ import annotations

SESSIONS = """
SessionFactory
    . = sessions.factory.SessionFactory
        sessions/test_factory.py::test_a_factory_is_chosen_by_what_it_accepts
    NewSession = sessions.factory.SessionFactory.new_session
        sessions/test_runtime.py::test_the_front_works_with_any_runtime
    AcceptsOptions = sessions.factory.SessionFactory.accepts_options
        sessions/test_factory.py::test_a_factory_is_chosen_by_what_it_accepts
    Reset = sessions.factory.SessionFactory.reset
        sessions/test_factory.py::test_reset_goes_to_the_factory_and_is_unimplemented_unless_it_says_otherwise
    ~SessionFactory: objects are collected; a test takes its factory out by `aioexec.sessions.factory.deregister`
    Register = sessions.factory.register
        sessions/test_factory.py::test_a_second_factory_of_one_type_is_logged_as_an_error_and_ignored
    GetFactory = sessions.factory.get_factory
        sessions/test_factory.py::test_a_target_that_nobody_accepts_is_not_found
        sessions/test_factory.py::test_a_target_that_two_accept_is_an_internal_error_that_names_both
SessionFactories
    . = sessions.factory._factories
        sessions/test_factory.py::test_a_second_factory_of_one_type_is_logged_as_an_error_and_ignored
    session_factories:
        a static local that outlives static constructors; a module has `aioexec.sessions.factory._factories`
    get_session_factory_lock:
        no half-made registration can be seen: a dict takes an entry at once; `aioexec.sessions.factory.register`
SessionOptions
    . = sessions.options.SessionOptions
        sessions/test_options.py::test_everything_honoured_is_read
    target = sessions.options.SessionOptions.target
        sessions/test_factory.py::test_a_factory_is_chosen_by_what_it_accepts
    config = sessions.options.SessionOptions.config
        sessions/test_options.py::test_no_config_is_an_empty_one
    env:
        the operating system behind an interface; tests put their own event loop there, `aioexec.testing.clock.VirtualClock`
    SessionOptionsToString = sessions.options.SessionOptions.describe
        sessions/test_factory.py::test_a_target_that_nobody_accepts_is_not_found
    RegisteredFactoriesErrorMessageLocked: a line of `aioexec.sessions.factory.get_factory`, which is its only caller
NewSession
    . = sessions.factory.new_session
        sessions/test_runtime.py::test_the_front_works_with_any_runtime
    session_created = observability.metrics.SESSIONS
        sessions/test_reports.py::test_sessions_steps_errors_and_bytes_are_counted
    monitoring::StartExporter = observability.metrics.Metrics.exposition
        observability/test_metrics.py::test_the_text_is_what_prometheus_reads
Session
    . = sessions.runtime.SessionRuntime
        sessions/test_runtime.py::test_every_verb_of_a_bare_runtime_is_unimplemented
DirectSessionFactory
    . = sessions.direct_factory.DirectSessionFactory
        sessions/test_direct_factory.py::test_no_target_means_this_process_and_any_other_is_somebody_elses
    AcceptsOptions = sessions.direct_factory.DirectSessionFactory.accepts_options
        sessions/test_direct_factory.py::test_no_target_means_this_process_and_any_other_is_somebody_elses
    use_tfrt, GetDefaultLocalSessionImpl, LocalSessionImpl:
        one of two C++ runtimes is chosen; there is `aioexec.sessions.direct.DirectSession` alone
    NewSession = sessions.direct_factory.DirectSessionFactory.new_session
        sessions/test_direct_factory.py::test_the_factory_knows_live_sessions_and_forgets_them_when_they_close
    Reset = sessions.direct_factory.DirectSessionFactory.reset
        sessions/test_direct_factory.py::test_reset_aborts_live_sessions_without_waiting_for_their_steps
    Deregister = sessions.direct_factory.DirectSessionFactory.deregister
        sessions/test_direct_factory.py::test_the_factory_knows_live_sessions_and_forgets_them_when_they_close
    sessions_ = sessions.direct_factory.DirectSessionFactory._sessions
        sessions/test_direct_factory.py::test_the_factory_knows_live_sessions_and_forgets_them_when_they_close
    sessions_lock_ = sessions.direct_factory.DirectSessionFactory._lock
        sessions/test_direct_factory.py::test_reset_reaches_sessions_of_other_loops
    session_metadata_keys_, GetMetadataKey:
        the live sessions say which pairs are taken: `aioexec.sessions.direct_factory.DirectSessionFactory._sessions`
    session_metadata = sessions.options.SessionOptions.session_metadata
        sessions/test_direct_factory.py::test_a_name_and_version_belong_to_one_live_session
    EnableCPUAllocatorFullStats = observability.allocator_stats.AllocatorStats
        observability/test_allocator_stats.py::test_the_arena_of_a_program_counts_until_the_program_is_gone
DirectSessionRegistrar
    . = sessions.direct_factory.register_direct_sessions
        sessions/test_direct_factory.py::test_no_target_means_this_process_and_any_other_is_somebody_elses
    registrar:
        a static object, registered when its library is loaded;
        `aioexec.sessions.direct_factory.register_direct_sessions` is called by the wiring
GrpcSession
    . = distributed.grpc_session.GrpcSession
        distributed/test_grpc_session.py::test_nothing_is_sent_before_there_is_something_to_run
        distributed/test_grpc_session.py::test_the_graph_is_sent_with_the_first_run_and_its_growth_with_later_ones
GrpcSessionFactory
    . = distributed.grpc_factory.GrpcSessionFactory
        distributed/test_grpc_session.py::test_a_target_without_an_address_is_refused
    AcceptsOptions = distributed.grpc_factory.GrpcSessionFactory.accepts_options
        distributed/test_grpc_session.py::test_a_target_without_an_address_is_refused
    NewSession = distributed.grpc_factory.GrpcSessionFactory.new_session
        distributed/test_grpc_session.py::test_nothing_is_sent_before_there_is_something_to_run
    kSchemePrefix = distributed.grpc_factory.SCHEME
        distributed/test_grpc_session.py::test_a_target_without_an_address_is_refused
GrpcSessionRegistrar
    . = distributed.grpc_factory.register_grpc_sessions
        distributed/test_grpc_session.py::test_nothing_is_sent_before_there_is_something_to_run
DirectSession
    . = sessions.direct.DirectSession
        sessions/test_named_steps.py::test_a_graph_is_created_once
    DirectSession = sessions.direct.DirectSession.__init__
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    Create = sessions.direct.DirectSession.create
        sessions/test_named_steps.py::test_a_graph_is_created_once
    Extend = sessions.direct.DirectSession.extend
        sessions/test_named_steps.py::test_extending_adds_nodes_to_those_there_are_and_none_is_fine
    Run = sessions.direct.DirectSession.run
        sessions/test_named_steps.py::test_results_come_in_the_order_asked_and_twice_if_asked_twice
    PRunSetup = sessions.direct.DirectSession.partial_run_setup
        sessions/test_partial_run.py::test_a_partial_run_works_by_names_alone
    PRun = sessions.direct.DirectSession.partial_run
        sessions/test_partial_run.py::test_a_partial_run_works_by_names_alone
    Reset = sessions.direct.DirectSession.reset
        sessions/test_direct_members.py::test_a_session_drops_the_containers_named_or_the_default_one
    ListDevice, ListDevices = sessions.direct.DirectSession.list_devices
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    Close = sessions.direct.DirectSession.close
        sessions/test_closing.py::test_a_direct_session_is_closed_like_its_front
    LocalDeviceManager = sessions.direct.DirectSession.local_device_manager
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    ExportCostModels = sessions.direct.DirectSession.export_cost_models
        sessions/test_reports.py::test_costs_are_learned_from_the_steps_that_are_asked_for
    MaybeInitializeExecutionState = sessions.direct.DirectSession._plan
        sessions/test_direct.py::test_a_signature_is_planned_once_however_many_ask
    GetOrCreateExecutors = sessions.direct.DirectSession.executor
        sessions/test_direct.py::test_a_signature_is_planned_once_however_many_ask
        sessions/test_named_steps.py::test_signatures_that_ask_for_the_same_share_a_plan_whatever_the_order
    CreateGraphs = planning.pipeline.Planner.plan
        planning/test_partition.py::test_an_edge_between_devices_becomes_one_send_and_one_recv_for_all_consumers_there
    ExtendLocked = sessions.extending.extend_graph
        sessions/test_named_steps.py::test_extending_adds_nodes_to_those_there_are_and_none_is_fine
    ResourceHandleToInputTensor = resources.session_state.SessionState.find
        sessions/test_session_handles.py::test_a_handle_is_fed_in_place_of_any_tensor
    SendPRunInputs = execution.executor.PartialStep.feed
        sessions/test_partial_run.py::test_parts_come_in_any_nesting_and_split_and_feeds_may_come_alone
    RecvPRunOutputs = execution.executor.PartialStep.fetch
        sessions/test_partial_run.py::test_a_partial_run_is_fed_and_fetched_in_parts
    CheckFetch = sessions.partial_run.PartialRun.check
        sessions/test_partial_run.py::test_what_cannot_be_computed_yet_is_refused_and_changes_nothing
    WaitForNotification = sessions.steps.StepScope
        sessions/test_closing.py::test_a_step_that_is_not_done_in_time_is_cancelled
    CheckNotClosed = sessions.direct.DirectSession._check_usable
        sessions/test_named_steps.py::test_a_closed_session_refuses_everything
    SchedClosure = devices.workers.Workers.submit
        devices/test_workers.py::test_a_job_runs_on_a_thread_of_the_pool_and_gives_its_result
    options_ = sessions.runtime.SessionRuntime.options
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    device_mgr_ = sessions.direct.DirectSession.device_mgr
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    devices_ = devices.device_set.DeviceMgr.list_devices
        devices/test_device_set.py::test_a_manager_lists_its_devices_and_counts_them_by_type
    device_set_ = sessions.direct.DirectSession.device_set
        sessions/test_direct_factory.py::test_a_session_owns_the_devices_its_options_count
    set_client_device = devices.device_set.DeviceSet.client_device
        devices/test_device_set.py::test_the_first_device_is_the_client_device
    session_handle_ = sessions.direct.DirectSession.session_handle
        sessions/test_direct_members.py::test_every_session_has_a_handle_of_its_own
    op_segment()->AddHold = devices.op_segment.OpSegment.add_hold
        sessions/test_direct_members.py::test_devices_hold_the_kernels_of_a_session_until_it_closes
    graph_created_, graph_def_ = sessions.direct.DirectSession.graph
        sessions/test_named_steps.py::test_a_session_without_a_graph_runs_nothing
    graph_def_lock_: a graph is changed and copied in one planner thread: `aioexec.execution.engine.Engine.planner`
    thread_pools_ = sessions.direct.DirectSession.pools
        sessions/test_pools.py::test_a_blocked_pool_does_not_stop_another
    NewThreadPoolFromThreadPoolOptions = devices.pools.named_pool
        devices/test_pools.py::test_a_named_pool_is_shared_by_name
    NewThreadPoolFromSessionOptions, GlobalThreadPool = devices.pools.inter_op_pool
        devices/test_pools.py::test_steps_use_the_pool_of_the_client_device_if_it_has_the_size_they_ask_for
        devices/test_pools.py::test_on_request_the_devices_of_one_session_share_a_pool_of_their_own
    NumInterOpThreadsFromEnvironment = devices.pools.inter_op_threads
        devices/test_pools.py::test_inter_op_threads_are_as_asked_then_as_the_environment_says_then_one_a_processor
    run_in_caller_thread_ = devices.pools.inter_op_pool
        devices/test_pools.py::test_a_negative_number_is_one_thread_of_the_sessions_own
    init_error_ = sessions.direct.DirectSession.init_error
        sessions/test_pools.py::test_a_global_pool_keeps_its_number_of_threads_for_ever
    sync_on_finish_ = sessions.direct.DirectSession.sync_on_finish
        sessions/test_direct_members.py::test_a_step_waits_for_devices_that_lag_behind_unless_told_not_to
    ReadBoolFromEnvVar: one line, `aioexec.sessions.direct.DirectSession.sync_on_finish`
    log_device_placement = observability.device_log.log_notice
        sessions/test_direct_members.py::test_the_mapping_of_devices_is_told_to_listeners
    DeviceMappingString = devices.device_set.DeviceMgr.device_mapping_string
        devices/test_device_set.py::test_the_mapping_tells_only_of_devices_with_hardware_of_their_own
    logging::LogToListeners = observability.device_log.log_to_listeners
        observability/test_device_log.py::test_listeners_hear_a_notice_instead_of_the_log
    executor_lock_:
        the event loop owns the executors; `aioexec.sessions.direct.DirectSession._planning` lets others wait for a plan
    executors_ = sessions.direct.DirectSession._executors
        sessions/test_named_steps.py::test_signatures_that_ask_for_the_same_share_a_plan_whatever_the_order
    partial_runs_ = sessions.partial_runs.PartialRuns
        sessions/test_partial_run.py::test_partial_runs_of_one_structure_are_apart_and_concurrent
    session_state_ = resources.session_state.SessionState
        sessions/test_session_handles.py::test_a_handle_is_fed_in_place_of_any_tensor
    factory_ = sessions.direct.DirectSession._forget
        sessions/test_direct_factory.py::test_the_factory_knows_live_sessions_and_forgets_them_when_they_close
    cancellation_manager_ = execution.engine.Engine.cancellation
        execution/test_step.py::test_each_step_has_a_cancellation_manager_of_its_own_that_is_told_when_it_fails
        sessions/test_closing.py::test_close_without_grace_cancels_at_once_and_waits_until_all_is_quiet
    stateful_placements_ = sessions.direct.DirectSession.stateful_placements
        sessions/test_direct_members.py::test_state_stays_where_it_was_placed
    execution_state_, SimpleGraphExecutionState = planning.pipeline.Planner
        sessions/test_direct.py::test_a_signature_is_planned_once_however_many_ask
    flib_def_:
        functions of a graph come with the next stage; `aioexec.graph.graph.Graph` will hold them for all sessions
    closed_, closed_lock_ = sessions.life.Life
        sessions/test_life.py::test_whatever_happens_states_only_move_on_and_each_step_is_told_once
    edge_name_counter_ = planning.pipeline.Planner._names
        planning/test_partition.py::test_transfers_of_different_cuts_of_a_session_are_never_confused
    handle_name_counter_ = sessions.partial_runs.PartialRuns._handles
        sessions/test_partial_run.py::test_partial_runs_of_one_structure_are_apart_and_concurrent
    step_id_counter_ = execution.step._step_ids
        sessions/test_direct_members.py::test_step_numbers_are_unique_over_all_sessions
    operation_timeout_in_ms_ = sessions.options.SessionOptions.operation_timeout_in_ms
        sessions/test_closing.py::test_a_step_that_is_not_done_in_time_is_cancelled
    cost_model_manager_ = observability.cost_model.CostModelManager
        observability/test_cost_model.py::test_a_manager_has_a_model_for_each_graph
    call frame: feeds and fetches are entries of the slot table; `aioexec.planning.plan.Partition` says which
    Partition = planning.partition.partition
        planning/test_partition.py::test_an_edge_between_devices_becomes_one_send_and_one_recv_for_all_consumers_there
        planning/test_partition.py::test_partitions_that_do_not_fit_together_are_found
    OptimizationPassRegistry::RunGrouping = planning.passes.OptimizationPassRegistry.run_grouping
        planning/test_passes.py::test_a_group_runs_its_passes_by_phase_and_then_as_registered
    device rewrite of its subgraph = devices.device.Device.rewrite
        sessions/test_direct_members.py::test_a_device_has_the_last_word_on_its_own_subgraph
    Executor::RunAsync = execution.executor.Executor.step
        execution/test_partitions.py::test_a_value_is_doubled_ten_times_from_device_to_device
    barrier: partitions are tasks that are awaited together; `aioexec.execution.executor.Executor.step`
ExecutorsAndKeys
    . = execution.executor.Executor
        execution/test_executor.py::test_a_step_of_several_fetches_in_any_order_is_one_call_too
    step_count = execution.executor.Executor.step_count
        sessions/test_reports.py::test_costs_are_learned_from_the_steps_that_are_asked_for
    graph = planning.plan.Partition.subgraph
        sessions/test_reports.py::test_the_partitions_that_ran_are_told_unless_the_session_forbids_it
    name_to_node: a Signature holds tensors, not names: `aioexec.planning.subgraph.Signature`
    flib_def: see DirectSession; `aioexec.graph.graph.Graph`
    items = execution.executor.Executor.partitions
        execution/test_partitions.py::test_a_control_edge_orders_across_devices
    input_name_to_index = planning.plan.Partition.feeds
        sessions/test_named_steps.py::test_feeds_in_either_order_and_of_one_value_reach_their_own_consumers
    output_name_to_index = planning.plan.Partition.fetches
        sessions/test_named_steps.py::test_results_come_in_the_order_asked_and_twice_if_asked_twice
    input_name_to_rendezvous_key, output_name_to_rendezvous_key:
        partial runs feed slots and fetch from them: `aioexec.execution.executor.PartialStep`
    input_types = execution.executor.Executor._dtypes
        sessions/test_named_steps.py::test_values_of_any_type_are_fed_and_fetched
    output_types: arrays know their dtypes; what is fetched is `aioexec.planning.subgraph.Signature`
PerPartitionExecutorAndLib
    . = execution.partition_executor.PartitionExecutor
        execution/test_partitions.py::test_a_control_edge_orders_across_devices
    graph = planning.plan.Partition
        planning/test_partition.py::test_an_edge_between_devices_becomes_one_send_and_one_recv_for_all_consumers_there
    flib: functions come with the next stage, planned with their caller: `aioexec.planning.pipeline.Planner`
    executor = execution.partition_executor.PartitionExecutor
        execution/test_partitions.py::test_a_control_edge_orders_across_devices
RunState
    . = execution.step.Step
        execution/test_partitions.py::test_an_error_on_one_device_ends_the_receives_that_wait_on_another
    mu_: a step belongs to its event loop; `aioexec.execution.step.Step`
    status = execution.step.Step.error
        sessions/test_failing_steps.py::test_the_first_error_is_the_one_that_is_raised
    rendez, IntraProcessRendezvous = execution.rendezvous.IntraProcessRendezvous
        execution/test_rendezvous.py::test_futures_see_what_the_table_decides
    collector, StepStatsCollector = observability.step_stats.StepStatsCollector
        sessions/test_reports.py::test_a_traced_step_tells_when_each_node_ran
    executors_done: the step is awaited; `aioexec.execution.executor.PartialStep.finish`
    pending_inputs = sessions.partial_run.PartialRun.fed
        sessions/test_partial_run.py::test_what_was_not_announced_or_comes_twice_is_refused
    pending_outputs = sessions.partial_run.PartialRun.fetched
        sessions/test_partial_run.py::test_what_was_not_announced_or_comes_twice_is_refused
    tensor_store:
        a handle's tensor is kept when its node runs, not at the end: `aioexec.resources.session_state.SessionState.keep`
    step_container, ScopedStepContainer = execution.step.Step.container
        execution/test_async_kernels.py::test_what_is_in_the_container_of_a_step_vanishes_with_it
RunStateArgs
    .: what a plan depends on is its signature: `aioexec.planning.subgraph.Signature`
    is_partial_run = planning.subgraph.Signature.is_partial
        sessions/test_partial_run.py::test_a_partial_run_is_fed_and_fetched_in_parts
    handle = sessions.partial_runs.PartialRuns._open
        sessions/test_partial_run.py::test_a_run_that_is_done_has_no_handle_any_more
    graph: carried to its caller; `aioexec.planning.plan.Partition.subgraph`
    debug_options = sessions.run_options.StepOptions.from_proto
        sessions/test_options.py::test_watching_tensors_is_refused_not_forgotten
TF_Session
    . = sessions.session.Session
        sessions/test_session.py::test_a_session_opens_at_its_first_run_and_is_closed_by_hand
    session = sessions.session.Session._runtime
        sessions/test_session.py::test_a_session_opens_at_its_first_run_and_is_closed_by_hand
    graph = sessions.session.Session.graph
        sessions/test_session.py::test_inside_its_block_a_session_and_its_graph_are_the_defaults
    last_num_graph_nodes = sessions.runtime.SessionRuntime._sent
        sessions/test_runtime.py::test_a_runtime_is_told_of_each_node_once
    extend_before_run = sessions.runtime.SessionRuntime._send_graph
        sessions/test_runtime.py::test_a_runtime_is_told_of_each_node_once
TF_NewSession
    . = sessions.session.Session
        sessions/test_session.py::test_a_session_opens_at_its_first_run_and_is_closed_by_hand
    TF_NewSessionOptions, TF_SessionOptions = sessions.options.SessionOptions.from_config
        sessions/test_options.py::test_everything_honoured_is_read
    TF_Status, TF_GetCode: errors are raised: `aioexec.errors.OpError`
    graph->sessions:
        lets a C graph refuse changes of what a session has seen; ours grow only, and
        `aioexec.graph.graph.Graph.mutations` is checked
"""
