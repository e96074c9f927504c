"""The campaign of stateful ops runs each op that may take long; the time itself is not tested here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from aioexec.graph import registry
from aioexec.graph.graph import Graph
from tests.campaigns import loop_holds
from tests.campaigns.stateful_holds import longest_holds
from tests.campaigns.stateful_programs import PROGRAMS, Content, Program, cases

LEFT_OUT = {
    "takes as long for many elements as for few": r"(Experimental)?(Random|Unique)Dataset"
    r"|.*(Size|IsClosed|NumAccumulated|SetGlobalStep|ElementShape|StringHandle)"
    r"|Reader(Num\w+|Reset|SerializeState|RestoreState)|(Stack|TensorArray)Close|Optional(HasValue|None)|EmptyTensorList"
    r"|DeleteSessionTensor|GetSessionTensor|_Retval",
    "has the kernel of one that is there": r"Experimental(DenseToSparseBatch|DirectedInterleave|Unbatch)"
    r"Dataset|Accumulator(Apply|Take)Gradient|ConditionalAccumulator"
    r"|IteratorGetNextSync|TensorArray(Pack|Unpack|GradWithShape)",
    "works on files, in a worker": r"\w+Reader|ReaderRead(UpTo)?|Save(Slices)?|Restore(Slice)?|MergeV2Checkpoints|ReadFile"
    r"|WriteFile|MatchingFiles|InitializeTableFromTextFile|GenerateVocabRemapping|LoadAndRemapMatrix"
    r"|(FixedLengthRecord|TFRecord|TextLine)Dataset",
    "calls what the program gives": r"PyFunc(Stateless)?|OneShotIterator|(Parallel)?MapDataset"
    r"|(Filter|FlatMap|Generator|Interleave|LegacyParallelInterleave|Reduce)Dataset"
    r"|(Experimental)?(GroupByWindow|MapAndBatch|ParallelInterleave|Scan|TakeWhile)Dataset(V4)?",
    "passes on what its input gives": r"(LatencyStats|MaxIntraOpParallelism|Model|Optimize|Options|PrivateThreadPool)Dataset"
    r"|RewriteDataset|(Experimental)?IgnoreErrorsDataset",
}


def without_version(op_type: str) -> str:
    return re.sub(r"V[23]$", "", op_type)


def smallest(name: str) -> Content:
    """Few elements that a program takes."""
    return replace(next(content for named, _, content in cases() if named == name), count=5)


@pytest.mark.slow
def test_each_op_without_a_case_is_in_a_program_or_left_out_for_a_reason():
    present = set()
    for name, build in PROGRAMS.items():
        with Graph().as_default() as graph:
            build(Program(smallest(name)))
            present |= {without_version(op.type) for op in graph.get_operations()}

    missing = [
        op_type
        for op_type in loop_holds.op_types()
        if registry.lookup(op_type).asynchronous or not loop_holds.cases_of(op_type)
        if without_version(op_type) not in present
        if not any(re.fullmatch(pattern, without_version(op_type)) for pattern in LEFT_OUT.values())
    ]
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_and_each_of_its_steps_is_measured(name: str):
    found = longest_holds(PROGRAMS[name], smallest(name), rounds=1)

    assert found
    assert all(milliseconds > 0 for milliseconds in found.values())
