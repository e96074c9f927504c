"""Training, under the names of `tf.train`: optimizers, learning rates, checkpoints, hooks, sessions, input, clusters."""

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.distributed.cluster.cluster import ClusterSpec as ClusterSpec
    from aioexec.distributed.server.server import Server as Server
    from aioexec.formats.event_files import summary_iterator as summary_iterator
    from aioexec.formats.protos import (
        BytesList as BytesList,
        ClusterDef as ClusterDef,
        Example as Example,
        Feature as Feature,
        FeatureList as FeatureList,
        FeatureLists as FeatureLists,
        Features as Features,
        FloatList as FloatList,
        Int64List as Int64List,
        JobDef as JobDef,
        SaverDef as SaverDef,
        SequenceExample as SequenceExample,
        ServerDef as ServerDef,
    )
    from aioexec.train import queue_runner as queue_runner
    from aioexec.train.checkpoints.checkpoint_reader import (
        NewCheckpointReader as NewCheckpointReader,
        list_variables as list_variables,
        load_checkpoint as load_checkpoint,
        load_variable as load_variable,
    )
    from aioexec.train.checkpoints.checkpoint_state import (
        checkpoint_exists as checkpoint_exists,
        generate_checkpoint_state_proto as generate_checkpoint_state_proto,
        get_checkpoint_mtimes as get_checkpoint_mtimes,
        get_checkpoint_state as get_checkpoint_state,
        latest_checkpoint as latest_checkpoint,
        remove_checkpoint as remove_checkpoint,
        update_checkpoint_state as update_checkpoint_state,
    )
    from aioexec.train.checkpoints.graph_files import write_graph as write_graph
    from aioexec.train.checkpoints.initialization import init_from_checkpoint as init_from_checkpoint
    from aioexec.train.checkpoints.meta_graph_import import import_meta_graph as import_meta_graph
    from aioexec.train.checkpoints.meta_graphs import export_meta_graph as export_meta_graph
    from aioexec.train.checkpoints.saver import Saver as Saver
    from aioexec.train.checkpoints.waiting import checkpoints_iterator as checkpoints_iterator
    from aioexec.train.checkpoints.warm_starting import VocabInfo as VocabInfo, warm_start as warm_start
    from aioexec.train.coordination.coordinator import Coordinator as Coordinator
    from aioexec.train.coordination.looper import LooperThread as LooperThread
    from aioexec.train.device_setter import (
        GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
        byte_size_load_fn as byte_size_load_fn,
        replica_device_setter as replica_device_setter,
    )
    from aioexec.train.errors import (
        EndOfLoopError as EndOfLoopError,
        TrainingStateError as TrainingStateError,
    )
    from aioexec.train.global_steps import (
        assert_global_step as assert_global_step,
        create_global_step as create_global_step,
        get_global_step as get_global_step,
        get_or_create_global_step as get_or_create_global_step,
        global_step as global_step,
    )
    from aioexec.train.hooks.feed_hooks import FeedFnHook as FeedFnHook, FinalOpsHook as FinalOpsHook
    from aioexec.train.hooks.logging_hooks import (
        LoggingTensorHook as LoggingTensorHook,
        StepCounterHook as StepCounterHook,
    )
    from aioexec.train.hooks.profiler_hook import ProfilerHook as ProfilerHook
    from aioexec.train.hooks.progress_hook import ProgressHook as ProgressHook
    from aioexec.train.hooks.saving_hooks import (
        CheckpointSaverHook as CheckpointSaverHook,
        CheckpointSaverListener as CheckpointSaverListener,
    )
    from aioexec.train.hooks.session_run_hook import (
        SessionRunArgs as SessionRunArgs,
        SessionRunContext as SessionRunContext,
        SessionRunHook as SessionRunHook,
        SessionRunValues as SessionRunValues,
    )
    from aioexec.train.hooks.stopping_hooks import (
        GlobalStepWaiterHook as GlobalStepWaiterHook,
        NanLossDuringTrainingError as NanLossDuringTrainingError,
        NanTensorHook as NanTensorHook,
        StopAtStepHook as StopAtStepHook,
    )
    from aioexec.train.hooks.summary_hooks import (
        SummaryAtEndHook as SummaryAtEndHook,
        SummarySaverHook as SummarySaverHook,
    )
    from aioexec.train.hooks.timers import SecondOrStepTimer as SecondOrStepTimer
    from aioexec.train.input.batching import (
        batch as batch,
        batch_join as batch_join,
        maybe_batch as maybe_batch,
        maybe_batch_join as maybe_batch_join,
        maybe_shuffle_batch as maybe_shuffle_batch,
        maybe_shuffle_batch_join as maybe_shuffle_batch_join,
        shuffle_batch as shuffle_batch,
        shuffle_batch_join as shuffle_batch_join,
    )
    from aioexec.train.input.input_producers import (
        input_producer as input_producer,
        limit_epochs as limit_epochs,
        match_filenames_once as match_filenames_once,
        range_input_producer as range_input_producer,
        slice_input_producer as slice_input_producer,
        string_input_producer as string_input_producer,
    )
    from aioexec.train.input.queue_runner import (
        QueueRunner as QueueRunner,
        add_queue_runner as add_queue_runner,
        start_queue_runners as start_queue_runners,
    )
    from aioexec.train.optimizers.gradient_descent import (
        AdamOptimizer as AdamOptimizer,
        GradientDescentOptimizer as GradientDescentOptimizer,
        MomentumOptimizer as MomentumOptimizer,
    )
    from aioexec.train.optimizers.learning_rates import (
        cosine_decay as cosine_decay,
        cosine_decay_restarts as cosine_decay_restarts,
        exponential_decay as exponential_decay,
        inverse_time_decay as inverse_time_decay,
        linear_cosine_decay as linear_cosine_decay,
        natural_exp_decay as natural_exp_decay,
        noisy_linear_cosine_decay as noisy_linear_cosine_decay,
        piecewise_constant as piecewise_constant,
        piecewise_constant_decay as piecewise_constant_decay,
        polynomial_decay as polynomial_decay,
    )
    from aioexec.train.optimizers.moving_averages import ExponentialMovingAverage as ExponentialMovingAverage
    from aioexec.train.optimizers.optimizer import Optimizer as Optimizer
    from aioexec.train.optimizers.sync_replicas import SyncReplicasOptimizer as SyncReplicasOptimizer
    from aioexec.train.optimizers.update_optimizers import (
        AdadeltaOptimizer as AdadeltaOptimizer,
        AdagradDAOptimizer as AdagradDAOptimizer,
        AdagradOptimizer as AdagradOptimizer,
        FtrlOptimizer as FtrlOptimizer,
        ProximalAdagradOptimizer as ProximalAdagradOptimizer,
        ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer,
        RMSPropOptimizer as RMSPropOptimizer,
    )
    from aioexec.train.sessions.basic_loops import basic_train_loop as basic_train_loop
    from aioexec.train.sessions.evaluation import (
        StopAfterNEvalsHook as StopAfterNEvalsHook,
        evaluate_once as evaluate_once,
        evaluate_repeatedly as evaluate_repeatedly,
        get_or_create_eval_step as get_or_create_eval_step,
    )
    from aioexec.train.sessions.monitored_session import (
        MonitoredSession as MonitoredSession,
        SingularMonitoredSession as SingularMonitoredSession,
    )
    from aioexec.train.sessions.monitored_training import MonitoredTrainingSession as MonitoredTrainingSession
    from aioexec.train.sessions.scaffold import Scaffold as Scaffold
    from aioexec.train.sessions.session_creators import (
        ChiefSessionCreator as ChiefSessionCreator,
        SessionCreator as SessionCreator,
        WorkerSessionCreator as WorkerSessionCreator,
    )
    from aioexec.train.sessions.session_manager import SessionManager as SessionManager
    from aioexec.train.sessions.supervisor import Supervisor as Supervisor
else:
    __getattr__, __dir__ = public_names(__name__)
