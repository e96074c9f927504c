"""What became of each class, method and hook of the text on training this project grew from. Form: that of `seeds_table`."""

from __future__ import annotations

TRAINING = """
SessionManager
    . = train.SessionManager
        train/test_session_manager.py::test_all_is_run_in_order
    init_op, init_fn, ready_for_local_init_op, local_init_op, ready_op = train.session_manager.SessionManager.prepare_session
        train/test_session_manager.py::test_all_is_run_in_order
        train/test_session_manager.py::test_an_init_function_may_be_awaited_and_init_ops_are_fed
        train/test_session_manager.py::test_a_model_that_is_not_ready_names_its_variables
    _restore_checkpoint = train.SessionManager._restore_checkpoint
        train/test_session_manager.py::test_a_checkpoint_is_restored_instead_of_initialising
        train/test_session_manager.py::test_a_checkpoint_is_restored_by_name
        train/test_session_manager.py::test_a_checkpoint_is_waited_for
        train/test_session_manager.py::test_a_checkpoint_is_waited_for_so_long
    prepare_session = train.SessionManager.prepare_session
        train/test_session_manager.py::test_a_checkpoint_is_restored_instead_of_initialising
        train/test_session_manager.py::test_without_a_checkpoint_the_model_is_initialised
        train/test_session_manager.py::test_there_must_be_something_to_initialise_with
        train/test_session_manager.py::test_a_session_that_fails_to_get_ready_is_closed
    recover_session = train.SessionManager.recover_session
        train/test_session_manager.py::test_recovering_tells_whether_the_model_was_restored
        train/test_session_manager.py::test_recovering_a_part_of_the_model_is_not_enough
    wait_for_session = train.SessionManager.wait_for_session
        train/test_session_manager.py::test_a_model_is_waited_for_until_others_have_made_it_ready
        train/test_session_manager.py::test_a_model_is_waited_for_so_long
SessionCreator
    . = train.SessionCreator
        train/test_monitored_recovery.py::test_each_recovery_waits_longer_and_is_told
ChiefSessionCreator
    . = train.ChiefSessionCreator
        train/test_monitored_loops.py::test_queue_runners_feed_the_loop_until_their_input_ends
        train/test_monitored_training.py::test_training_goes_on_where_it_was_left
WorkerSessionCreator
    . = train.WorkerSessionCreator
        train/test_monitored_training.py::test_a_worker_waits_for_its_chief
_CoordinatedSessionCreator
    . = train.monitored_session._CoordinatedSessionCreator
        train/test_call_sequences.py::test_calls_come_in_this_order
    QUEUE_RUNNERS = train.queue_runner.start_queue_runners
        train/test_monitored_loops.py::test_queue_runners_feed_the_loop_until_their_input_ends
        train/test_monitored_loops.py::test_a_runner_that_fails_ends_the_loop_with_its_error
_WrappedSession
    . = train.wrapped_sessions._WrappedSession
        train/test_call_sequences.py::test_calls_come_in_this_order
    should_stop = train.wrapped_sessions._WrappedSession.should_stop
        train/test_monitored_loops.py::test_a_hook_ends_the_loop
        train/test_monitored_session.py::test_what_was_closed_says_so
    close = train.wrapped_sessions._WrappedSession.close
        train/test_monitored_recovery.py::test_a_session_whose_closing_is_cancelled_is_closed
    run = train.wrapped_sessions._WrappedSession.run
        train/test_call_sequences.py::test_calls_come_in_this_order
_RecoverableSession
    . = train.wrapped_sessions._RecoverableSession
        train/test_monitored_recovery.py::test_each_recovery_waits_longer_and_is_told
        train/test_monitored_recovery.py::test_after_too_many_recoveries_the_error_is_raised
    run = train.wrapped_sessions._RecoverableSession.run
        train/test_monitored_recovery.py::test_steps_that_are_lost_together_recover_once
        train/test_monitored_recovery.py::test_cancelling_a_step_leaves_the_session_usable
_CoordinatedSession
    . = train.wrapped_sessions._CoordinatedSession
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_loops.py::test_a_runner_that_fails_ends_the_loop_with_its_error
_HookedSession
    . = train.hooked_session._HookedSession
        train/test_monitored_session.py::test_hooks_get_what_they_asked_for_in_its_structure
        train/test_monitored_session.py::test_what_hooks_feed_is_fed
        train/test_monitored_session.py::test_options_of_hooks_and_caller_are_merged
    the loop in pseudo-code = train.monitored_session
        train/test_call_sequences.py::test_calls_come_in_this_order
        interop/train/test_monitored_interop.py::test_tensorflow_calls_the_same_in_the_same_order
    (errors.OutOfRangeError, StopIteration) = train.errors.ends_loop
        train/test_monitored_loops.py::test_the_end_of_input_ends_the_loop_from_wherever_it_comes
        train/test_monitored_loops.py::test_an_iterator_at_its_end_ends_the_loop
        train/test_monitored_loops.py::test_a_stop_iteration_of_a_hook_comes_out_as_an_end_of_input
SessionRunHook
    . = train.SessionRunHook
        train/test_call_sequences.py::test_calls_come_in_this_order
    begin = train.SessionRunHook.begin
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_session.py::test_its_graph_is_the_default_one_where_it_is_made
    after_create_session = train.SessionRunHook.after_create_session
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_session.py::test_a_session_that_cannot_be_opened_is_closed_and_lets_the_graph_be_changed
    before_run = train.SessionRunHook.before_run
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_session.py::test_hooks_may_want_something_else_each_time
        train/test_monitored_session.py::test_what_is_no_request_is_refused
    after_run = train.SessionRunHook.after_run
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_session.py::test_hooks_that_are_awaited_take_part_like_others
    end = train.SessionRunHook.end
        train/test_call_sequences.py::test_calls_come_in_this_order
        train/test_monitored_loops.py::test_hooks_are_told_the_error_instead_of_the_end
SessionRunContext
    . = train.SessionRunContext
        train/test_monitored_session.py::test_a_context_tells_what_the_caller_asked_for
SessionRunValues
    . = train.SessionRunValues
        train/test_monitored_session.py::test_without_options_hooks_see_empty_ones
    results = train.SessionRunValues.results
        train/test_monitored_session.py::test_hooks_get_what_they_asked_for_in_its_structure
    options = train.SessionRunValues.options
        train/test_monitored_session.py::test_options_of_hooks_and_caller_are_merged
    run_metadata = train.SessionRunValues.run_metadata
        train/test_monitored_session.py::test_options_of_hooks_and_caller_are_merged
SessionRunArgs
    . = train.SessionRunArgs
        train/test_monitored_session.py::test_hooks_get_what_they_asked_for_in_its_structure
    fetches = train.SessionRunArgs.fetches
        train/test_monitored_session.py::test_hooks_that_want_the_same_tensor_get_the_same_value
    feed_dict = train.SessionRunArgs.feed_dict
        train/test_monitored_session.py::test_what_hooks_feed_is_fed
        train/test_monitored_session.py::test_a_tensor_is_fed_once
    options = train.SessionRunArgs.options
        train/test_monitored_session.py::test_options_of_hooks_and_caller_are_merged
_MonitoredSession
    . = train.monitored_session._MonitoredSession
        train/test_call_sequences.py::test_calls_come_in_this_order
    __init__ = train.monitored_session._MonitoredSession.__await__
        train/test_monitored_session.py::test_the_constructor_needs_no_loop
        train/test_monitored_session.py::test_it_may_be_awaited_and_closed_by_hand
        train/test_monitored_recovery.py::test_a_session_whose_opening_is_cancelled_is_closed
    should_recover = train.wrapped_sessions.PREEMPTION_ERRORS
        train/test_call_sequences.py::test_calls_come_in_this_order
    stop_grace_period_secs = train.wrapped_sessions._CoordinatedSession._stop_grace_period_secs
        train/test_monitored_recovery.py::test_tasks_have_their_grace_when_a_session_is_closed
    run = train.monitored_session._MonitoredSession.run
        train/test_monitored_session.py::test_hooks_get_what_they_asked_for_in_its_structure
        train/test_monitored_recovery.py::test_cancelling_a_real_step_cancels_it_alone
    close = train.monitored_session._MonitoredSession.close
        train/test_monitored_session.py::test_it_may_be_awaited_and_closed_by_hand
        train/test_monitored_recovery.py::test_closing_cancels_steps_under_way
SingularMonitoredSession
    . = train.SingularMonitoredSession
        train/test_monitored_session.py::test_the_session_within_a_singular_one_may_be_used
        test_examples.py::test_training_goes_on_from_its_last_checkpoint
MonitoredSession
    . = train.MonitoredSession
        train/test_monitored_loops.py::test_a_hook_ends_the_loop
MonitoredTrainingSession
    . = train.MonitoredTrainingSession
        train/test_monitored_training.py::test_hooks_are_added_for_what_is_wanted
        train/test_monitored_training.py::test_training_goes_on_where_it_was_left
        test_examples.py::test_training_goes_on_from_its_last_checkpoint
    is_chief = train.monitored_training.MonitoredTrainingSession
        train/test_monitored_training.py::test_a_worker_waits_for_its_chief
    hooks, chief_only_hooks = train.monitored_training.MonitoredTrainingSession
        train/test_monitored_training.py::test_hooks_of_the_chief_come_first_and_the_callers_last
    USE_DEFAULT = train.monitored_training.USE_DEFAULT
        train/test_monitored_training.py::test_hooks_are_added_for_what_is_wanted
Scaffold
    . = train.Scaffold
        train/test_scaffold.py::test_defaults_are_made_and_put_into_collections
        train/test_scaffold.py::test_the_defaults_do_what_they_say
        train/test_scaffold.py::test_a_scaffold_is_copied_where_nothing_is_given
The cluster's chief and worker
    session_creator=ChiefSessionCreator(master=..., config=...) = train.ChiefSessionCreator
        train/test_session_manager.py::test_an_unknown_master_is_not_found
    session_creator=WorkerSessionCreator(master=..., config=...) = train.WorkerSessionCreator
        train/test_monitored_training.py::test_a_worker_waits_for_its_chief
LoggingTensorHook
    . = train.LoggingTensorHook
        train/test_logging_hooks.py::test_tensors_are_logged_at_the_first_step_and_each_so_many
        train/test_logging_hooks.py::test_tensors_are_logged_each_so_many_seconds
StopAtStepHook
    . = train.StopAtStepHook
        train/test_stopping_hooks.py::test_stop_after_a_number_of_steps
        train/test_stopping_hooks.py::test_stop_at_a_step
CheckpointSaverListener
    . = train.CheckpointSaverListener
        train/test_saving_hooks.py::test_listeners_are_told_in_their_order
CheckpointSaverHook
    . = train.CheckpointSaverHook
        train/test_saving_hooks.py::test_checkpoints_are_saved_at_the_start_each_so_many_steps_and_at_the_end
        train/test_saving_hooks.py::test_the_graph_is_written_beside_the_checkpoints
StepCounterHook
    . = train.StepCounterHook
        train/test_logging_hooks.py::test_steps_a_second_are_logged_and_recorded
NanTensorHook
    . = train.NanTensorHook
        train/test_stopping_hooks.py::test_a_loss_that_is_nan_ends_the_loop_with_an_error
        train/test_stopping_hooks.py::test_a_loss_that_is_nan_may_end_the_loop_without_an_error
SummarySaverHook
    . = train.SummarySaverHook
        train/test_summary_hooks.py::test_summaries_are_written_at_the_first_step_and_each_so_many
        train/test_summary_hooks.py::test_the_scaffolds_summaries_are_written
GlobalStepWaiterHook
    . = train.GlobalStepWaiterHook
        train/test_stopping_hooks.py::test_the_first_step_waits_until_others_have_trained
FinalOpsHook
    . = train.FinalOpsHook
        train/test_feed_hooks.py::test_final_ops_are_run_at_the_end
FeedFnHook
    . = train.FeedFnHook
        train/test_feed_hooks.py::test_each_step_is_fed_what_the_function_returns
_StopAfterNEvalsHook
    . = train.evaluation.StopAfterNEvalsHook
        train/test_evaluation.py::test_the_ops_are_run_so_many_times
SummaryAtEndHook
    . = train.summary_hooks.SummaryAtEndHook
        train/test_summary_hooks.py::test_summaries_are_written_at_the_end_alone
"""
