"""The versions of a model as a state machine, over all orders of events."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioexec.errors import DataLossError
from aioexec.serving.models.version_policy import All, Latest, Specific
from aioexec.serving.models.version_status import VersionState
from aioexec.serving.models.version_table import Close, Load, VersionTable

DAMAGED = DataLossError("damaged")


def states(table):
    return {status.version: status.state.name for status in table.statuses()}


def test_the_newest_version_is_loaded_and_replaces_the_one_before_once_it_is_available():
    table = VersionTable(Latest(1))

    assert table.scanned({1: "a"}) == [Load(1)]
    assert table.loaded(1) == []
    assert table.scanned({1: "a", 2: "b"}) == [Load(2)]
    assert table.available() == [1]
    assert table.loaded(2) == [Close(1)]
    assert table.available() == [2]
    assert table.closed(1) == []
    assert states(table) == {1: "END", 2: "AVAILABLE"}


def test_a_leased_version_is_closed_after_its_last_lease():
    table = VersionTable(Latest(1))
    table.scanned({1: "a"})
    table.loaded(1)
    table.leased(1)
    table.leased(1)
    table.scanned({1: "a", 2: "b"})

    assert table.loaded(2) == []
    assert states(table) == {1: "UNLOADING", 2: "AVAILABLE"}
    assert table.released(1) == []
    assert table.released(1) == [Close(1)]


def test_a_bad_version_does_not_replace_a_good_one_and_is_loaded_again_when_its_folder_changed():
    table = VersionTable(Latest(1))
    table.scanned({1: "a"})
    table.loaded(1)
    table.scanned({1: "a", 2: "half"})

    assert table.failed(2, DAMAGED) == []
    assert table.scanned({1: "a", 2: "half"}) == []
    assert [status.error for status in table.statuses()] == [DAMAGED, None]
    assert table.available() == [1]
    assert table.scanned({1: "a", 2: "whole"}) == [Load(2)]
    assert table.loaded(2) == [Close(1)]


def test_at_the_start_the_version_before_a_bad_one_is_served():
    table = VersionTable(Latest(1))

    assert table.scanned({1: "a", 2: "b"}) == [Load(2)]
    assert table.failed(2, DAMAGED) == [Load(1)]


def test_what_is_loaded_goes_on_when_the_folder_is_gone():
    table = VersionTable(Latest(1))
    table.scanned({1: "a"})
    table.loaded(1)

    assert table.scanned({}) == []
    assert table.available() == [1]


def test_going_back_to_an_older_version_loads_it_before_the_newer_one_is_unloaded():
    table = VersionTable(Latest(1))
    table.scanned({2: "b"})
    table.loaded(2)

    assert table.scanned({1: "a"}) == [Load(1)]
    assert table.available() == [2]
    assert table.loaded(1) == [Close(2)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(Latest(2), [5, 3]), (All(), [5, 3, 1]), (Specific(frozenset({1, 3, 9})), [3, 1])],
)
def test_the_policy_chooses_and_one_is_loaded_at_a_time_the_newest_first(policy, expected):
    table = VersionTable(policy)
    actions, loaded = table.scanned({1: "", 3: "", 5: ""}), []
    while actions:
        (action,) = actions
        assert isinstance(action, Load)
        loaded.append(action.version)
        actions = table.loaded(action.version)

    assert loaded == expected
    assert table.available() == expected


def test_stopping_unloads_everything_and_what_is_being_loaded_as_soon_as_it_is():
    table = VersionTable(All())
    table.scanned({1: "", 2: "", 3: ""})
    table.loaded(3)

    assert table.stop() == [Close(3)]
    assert states(table) == {3: "UNLOADING", 2: "LOADING", 1: "END"}
    assert table.loaded(2) == [Close(2)]
    assert [table.closed(3), table.closed(2)] == [[], []]
    assert table.has_ended
    assert table.scanned({1: "", 9: ""}) == []


POLICIES = st.sampled_from([Latest(1), Latest(2), All(), Specific(frozenset({1, 2}))])


class Versions(RuleBasedStateMachine):
    """A table under all orders of scans, loads, failures, leases and closes."""

    def __init__(self):
        super().__init__()
        self.policy = None
        self.folders = {}
        self.loading = set()
        self.closing = set()
        self.leases = []
        self.is_stopped = False

    def do(self, actions):
        for action in actions:
            if isinstance(action, Load):
                assert not self.is_stopped
                assert action.version in self.folders
                self.loading.add(action.version)
            else:
                assert action.version not in self.leases
                assert action.version not in self.closing
                self.closing.add(action.version)

    @precondition(lambda self: self.policy is None)
    @rule(policy=POLICIES)
    def begin(self, policy):
        self.policy = policy
        self.table = VersionTable(policy)

    @precondition(lambda self: self.policy is not None)
    @rule(folders=st.dictionaries(st.integers(1, 4), st.integers(0, 1)))
    def scan(self, folders):
        served = self.table.available()
        self.folders = folders
        self.do(self.table.scanned(folders))
        assert self.is_stopped or not served or self.table.available()

    @precondition(lambda self: self.loading)
    @rule(data=st.data(), is_good=st.booleans())
    def load(self, data, is_good):
        version = data.draw(st.sampled_from(sorted(self.loading)))
        self.loading.discard(version)
        served = self.table.available()
        self.do(self.table.loaded(version) if is_good else self.table.failed(version, DAMAGED))
        assert self.is_stopped or not served or self.table.available()

    @precondition(lambda self: self.policy is not None and self.table.available())
    @rule(data=st.data())
    def lease(self, data):
        version = data.draw(st.sampled_from(self.table.available()))
        self.table.leased(version)
        self.leases.append(version)

    @precondition(lambda self: self.leases)
    @rule()
    def release(self):
        self.do(self.table.released(self.leases.pop()))

    @precondition(lambda self: self.closing)
    @rule(data=st.data())
    def close(self, data):
        version = data.draw(st.sampled_from(sorted(self.closing)))
        self.closing.discard(version)
        self.do(self.table.closed(version))

    @precondition(lambda self: self.policy is not None and not self.is_stopped)
    @rule()
    def stop(self):
        self.is_stopped = True
        self.do(self.table.stop())
        assert not self.table.available()

    @invariant()
    def holds(self):
        if self.policy is not None:
            self.table.check_invariants()

    def teardown(self):
        """When everything succeeds from now on, exactly what the policy chooses is available; or nothing, if stopped."""
        if self.policy is None:
            return
        while self.loading or self.closing or self.leases:
            if self.leases:
                self.release()
            elif self.loading:
                self.do(self.table.loaded(self.loading.pop()))
            else:
                self.do(self.table.closed(self.closing.pop()))
        bad = {status.version for status in self.table.statuses() if status.error is not None}
        chosen = self.policy.choose([version for version in self.folders if version not in bad])
        if self.is_stopped:
            assert self.table.has_ended
        elif chosen:
            assert set(self.table.available()) == chosen
        assert all(
            status.state in (VersionState.AVAILABLE, VersionState.END) for status in self.table.statuses()
        )


TestVersions = Versions.TestCase
