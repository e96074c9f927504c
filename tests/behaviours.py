"""The numbered behaviours of TensorFlow's session runtime that aioexec implements, for `@pytest.mark.behaviour(n)`.

Each line summarizes one. `V1` exist since TensorFlow 1.8, `NEEDED` came later and are required too, `LATER` are optional.
Numbers are never reused.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Tag(enum.Enum):
    """How much a behaviour is wanted."""

    V1 = "v1"
    NEEDED = "needed"
    LATER = "later"


class Behaviour(NamedTuple):
    """One of the behaviours."""

    number: int
    tag: Tag
    text: str


V1, NEEDED, LATER = Tag.V1, Tag.NEEDED, Tag.LATER

BEHAVIOURS = [
    Behaviour(*row)
    for row in (
        # Factories, making a session
        (1, V1, "a target that no factory accepts: NotFound"),
        (2, V1, "a target that two factories accept: Internal, naming both"),
        (3, V1, "a factory chooses by a predicate over the options"),
        (4, V1, "a session takes a graph once"),
        (5, V1, "a run without a graph is an error"),
        (6, V1, "extending by nothing"),
        (7, V1, "a session has a device manager with at least one device"),
        (8, V1, "device_count makes that many CPU devices, named in order"),
        (9, LATER, "names and versions of live sessions are unique; a negative version is refused"),
        # Feeds, fetches, targets
        (10, V1, "a fetch and a target: both run, one value comes back"),
        (11, V1, "targets alone run and give nothing"),
        (12, V1, "results come in the order of the fetches"),
        (13, V1, "a tensor fetched twice is given twice"),
        (14, V1, "repeated fetches keep their places among others"),
        (15, V1, "a fed tensor takes the place of its producer, which does not run"),
        (16, V1, "feeds in any order, one object for two of them: each reaches its consumer"),
        (17, V1, "a tensor fed twice is refused"),
        (18, V1, "a tensor fed and fetched: refused by name, given back by the front"),
        (19, V1, "unknown feeds, fetches and targets: NotFound"),
        (20, V1, "an output that an operation does not have is named"),
        (21, V1, "nothing to run is refused"),
        (22, V1, "feeding a tensor without consumers"),
        (23, V1, "feeding one output leaves the others to their node"),
        (24, V1, "a fed variable cannot be assigned"),
        (25, V1, "only ancestors of what is asked run, cut at the feeds"),
        (26, V1, "placement errors outside a signature matter unless place_pruned_graph is set"),
        (27, V1, "feeds and fetches live on the client device"),
        (28, V1, "every kind of dtype is fed and fetched"),
        (29, V1, "a kernel that leaves an output out: Internal"),
        (30, V1, "variables keep their values between runs"),
        (31, V1, "a stateful kernel is one for all signatures of a session"),
        (32, LATER, "a deep chain does not recurse"),
        (33, V1, "concurrent callers of one step do not meet"),
        (34, V1, "threads of a session's own change no result"),
        (35, V1, "a step chooses its inter-op pool; blocked pools do not block others"),
        (36, V1, "a named pool has the same size for ever"),
        (37, LATER, "pool -1: the step runs one kernel at a time"),
        (38, V1, "a full trace fills the step stats, times in order"),
        (39, V1, "partition graphs on demand; refused where the session disables them"),
        (40, V1, "timeouts of the session and of the run: DeadlineExceeded"),
        (41, V1, "after a timeout run returns when every kernel of the step is done"),
        (42, LATER, "a static graph is neither extended nor planned again"),
        (43, LATER, "a finalized session runs what was planned and nothing else"),
        # Callables
        (44, V1, "a callable is made, run and released, and behaves as run does"),
        (45, V1, "a released or invented handle: InvalidArgument"),
        (46, V1, "a callable of a closed session: Cancelled"),
        (47, V1, "another number of feeds than announced: InvalidArgument"),
        (48, LATER, "a tensor wired to the place of another"),
        (49, LATER, "wiring that makes a cycle, or names what is not there, is refused"),
        (50, LATER, "feed and fetch devices that cannot be honoured are refused"),
        # Partial runs
        (51, V1, "a run is fed and fetched in parts"),
        (52, V1, "a fetch whose feeds are missing is refused, the handle stays usable"),
        (53, V1, "one output of several is fed in parts"),
        (54, V1, "what comes twice or was not announced is refused"),
        (55, V1, "a partial run of a closed session: Cancelled"),
        (56, V1, "a step has one cancellation manager, of its own"),
        (57, V1, "a partial run is over once, when step and calls are done; the first error counts"),
        # Close, reset, handles
        (58, V1, "a closed session answers Cancelled to everything"),
        (59, V1, "closing twice is fine"),
        (60, V1, "reset closes the sessions there are"),
        (61, V1, "reset drops the named containers and no others"),
        (62, V1, "tensors stay in a session, are read by handle and deleted"),
        # Executor
        (63, V1, "two received values are added and sent on"),
        (64, V1, "one tensor as both inputs, ten times over"),
        (65, V1, "a random tree of thousands of uses"),
        (66, V1, "graphs without edges, without inputs, without nodes"),
        (67, V1, "a thousand unguarded additions to a variable: no crash, no more than a thousand"),
        (68, V1, "a switch kills one side, and death crosses devices"),
        (69, V1, "a node runs when all inputs are there; one dead input kills it"),
        (70, V1, "a merge fires at its first live input; dead when all are"),
        (71, V1, "iterations have counts of their own and overlap up to parallel_iterations"),
        (72, V1, "loop constants are seen by every iteration"),
        (73, V1, "a dead exit reaches the parent when the frame is finished"),
        (74, V1, "an aborted rendezvous fails waiting and later receivers"),
        (75, V1, "the first error ends the step and is the one reported"),
        (76, V1, "a value of another dtype than declared: Internal, the rendezvous is poisoned"),
        (77, V1, "every node that ran has stats, times in order"),
        (78, V1, "wide fans of control edges cost no more than their edges"),
        # Control flow that is not well formed
        (79, V1, "inputs from different frames"),
        (80, V1, "a frame entered from two parents"),
        (81, V1, "two loop conditions in a frame"),
        (82, V1, "a cycle is legal through a merge's back edge only"),
        (83, V1, "duplicate names, missing and default attributes of a GraphDef"),
        # Rendezvous, cancellation
        (84, V1, "keys are made of five parts and read again; malformed ones are rejected"),
        (85, V1, "send and receive meet in either order, with the dead bit"),
        (86, V1, "sends and receives of a key pair up in order"),
        (87, V1, "the first abort reaches waiting and later receivers"),
        (88, NEEDED, "a receive cancelled before or while it waits; after delivery nothing changes"),
        (89, NEEDED, "receivers left over by a cancellation get the next sends in order"),
        (90, LATER, "a cancellation without waiters is harmless"),
        (91, V1, "callbacks of a cancellation run once; late ones are refused"),
        (92, V1, "a remote rendezvous: local pairs stay local, remote ones fly together, abort reaches them"),
        # Partition
        (93, V1, "one device: one partition, equal to the graph"),
        (94, V1, "one transfer for each tensor and destination, shared"),
        (95, V1, "control edges cross as a dummy value"),
        (96, V1, "a data and a control edge of one source may cross apart"),
        (97, V1, "a loop over two devices has a clock on each"),
        (98, V1, "a merge keeps the order of its inputs"),
        (99, V1, "a missing input is refused"),
        (100, LATER, "a partition carries the functions it can reach"),
        (101, V1, "transfers carry the incarnation of the sender"),
        (102, V1, "a node without a device is refused"),
        (103, V1, "transfers of two signatures are not confused"),
        # Placer
        (104, V1, "the preferred device type with a kernel, the lowest number"),
        (105, V1, "a node goes where its kernel is"),
        (106, V1, "shape, size and rank stay with their input"),
        (107, V1, "a generator follows its only consumer when it can"),
        (108, V1, "a partial device name is completed"),
        (109, V1, "an assigned device stays; without a kernel there: Internal"),
        (110, V1, "reference edges hold nodes together"),
        (111, V1, "resource handles hold nodes together"),
        (112, V1, "colocation groups are joined through chains; impossible ones are refused"),
        (113, V1, "no devices: an error"),
        (114, V1, "an unknown job or task is named"),
        (115, V1, "an op without a kernel is named with the kernels there are"),
        (116, V1, "malformed device names are refused"),
        (117, V1, "an assigned name that fits several devices: Internal"),
        (118, V1, "a device that is not there: soft placement takes the CPU, else it is named"),
        (119, V1, "soft placement keeps nodes together"),
        (120, V1, "an error says the op, the device asked for and the devices there are"),
        # Devices
        (121, V1, "device types in the order of their priority, then of their names"),
        (122, V1, "devices answer to full names and short ones"),
        (123, V1, "the host CPU is the first CPU device, or none"),
        (124, V1, "inter-op threads: 0 for the default, else as many"),
        # Kernels, resources
        (125, V1, "a kernel is chosen by op, device type, attributes and label, and only one"),
        (126, V1, "wrong inputs are refused where a node is made"),
        (127, V1, "a kernel is made once for a session and node; sessions are held"),
        (128, V1, "resources by container, type and name; lookup-or-create is atomic"),
        (129, V1, "container and shared name rule which resource a node means"),
        (130, V1, "a handle of another device or type is refused"),
        # Import
        (131, V1, "bad names and indices are refused; the graph stays as it was"),
        (132, V1, "a control input before a data input is refused"),
        (133, V1, "an edge between two dtypes is refused"),
        (134, V1, "inputs are mapped, control inputs too; keys that meet nothing are reported"),
        (135, V1, "what is imported is returned by name, mapped or not"),
        (136, V1, "names are made unique, colocation groups along"),
        (137, V1, "control dependencies go to nodes without inputs"),
        (138, V1, "versions too old or too new are refused"),
        (139, V1, "functions come along; two of one name must be equal"),
        (140, V1, "an unknown op is named"),
        # gRPC session and master
        (141, V1, "runs as a direct session does"),
        (142, V1, "nodes forced on any pair of workers give the same result"),
        (143, V1, "device filters hide workers"),
        (144, V1, "an error on one worker ends the step everywhere, the session lives"),
        (145, NEEDED, "the root error is reported, whatever arrives first"),
        (146, LATER, "a very long error message survives the wire"),
        (147, V1, "a huge tensor fails or passes cleanly"),
        (148, V1, "sessions of one cluster share variables"),
        (149, V1, "illegal names in a graph sent over the wire are named"),
        (150, V1, "a failed extension leaves the graph as it was"),
        (151, V1, "of concurrent extensions of one version one succeeds"),
        (152, V1, "a run beside an extension sees the old or the new graph"),
        (153, V1, "timeouts of making and running: DeadlineExceeded"),
        (154, V1, "reset closes all sessions of a master"),
        (155, V1, "a session lists local and remote devices"),
        (156, V1, "sessions of a worker are known by handle and isolated on demand"),
        (157, V1, "a loop outside the graph, feeding back what came out, converges"),
        # Optimisation
        (158, V1, "constants are folded, except through state, feeds and large results"),
        (159, V1, "equal pure nodes are merged, stateful ones never"),
        (160, V1, "no optimisation changes what is fetched, or a name"),
    )
]

REQUIRED = {behaviour.number for behaviour in BEHAVIOURS if behaviour.tag is not LATER}
"""Without a test for each of these, `test_behaviours` fails."""
