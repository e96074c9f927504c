"""Models from folders: versions are loaded, replaced, drained and closed as the folders change, in virtual time."""

import asyncio
import gc
import shutil
import weakref
from pathlib import Path
from random import Random

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError, UnavailableError
from aioexec.saved_model.signature import Signature
from aioexec.serving.models.model_config import Batching, ModelConfig
from aioexec.serving.models.version_policy import All
from aioexec.serving.repository import Repository

pytestmark = pytest.mark.usefixtures("virtual_clock")

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 3], name="x")
    TEXT = ax.placeholder(ax.string, [], name="text")


class Adding:
    """A model and its only signature: adds the number in its file; -1 stands for a damaged one."""

    name = "serving_default"
    method_name = "tensorflow/serving/predict"

    def __init__(self, added):
        self.added = added
        self.inputs = {"x": X, "text": TEXT}
        self.outputs = {"y": X}
        self.signatures = {"serving_default": self}
        self.runs = []
        self.is_closed = False

    async def run(self, inputs, outputs=None):
        assert not self.is_closed
        self.runs.append(inputs)
        return {"y": inputs["x"] + self.added}

    async def close(self):
        self.is_closed = True


class Loading:
    """Loads `Adding` models, once `open` is set."""

    def __init__(self):
        self.open = asyncio.Event()
        self.open.set()
        self.paths = []
        self.models = {}

    async def __call__(self, path):
        self.paths.append(path)
        await self.open.wait()
        added = int(await asyncio.to_thread((Path(path) / "saved_model.pb").read_text))
        if added == -1:
            raise DataLossError("damaged")
        if added == -2:
            raise KeyError("of a damaged file")
        model = self.models[Path(path).name] = Adding(added)
        return model


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "adder"


@pytest.fixture
async def load():
    return Loading()


def write(folder, version, added):
    path = folder / str(version)
    path.mkdir(parents=True, exist_ok=True)
    (path / "saved_model.pb").write_text(str(added))


def watching(load, folder, **options):
    return Repository.watching([ModelConfig("adder", str(folder), **options)], load, poll_seconds=5)


def states(repository):
    return {status.version: status.state.name for status in repository.status("adder")}


async def answer(repository, **asked):
    with repository.lease("adder", **asked) as served:
        result = await served.run("serving_default", {"x": np.zeros(1)})
    return result["y"].tolist()


async def test_a_new_version_takes_over_once_it_is_loaded_and_warm_and_the_old_one_is_closed(load, folder):
    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        assert await answer(repository) == [10]

        write(folder, 2, 20)
        load.open.clear()
        await asyncio.sleep(6)
        assert states(repository) == {2: "LOADING", 1: "AVAILABLE"}
        assert await answer(repository) == [10]
        with repository.lease("adder") as held:
            load.open.set()
            await asyncio.sleep(1)
            assert states(repository) == {2: "AVAILABLE", 1: "UNLOADING"}
            assert await answer(repository) == [20]
            assert (await held.run("serving_default", {"x": np.ones(1)}))["y"].tolist() == [11]
            assert not load.models["1"].is_closed
            with pytest.raises(UnavailableError, match=r"version 1 is not available; .1: 'UNLOADING'"):
                await answer(repository, version=1)
        await asyncio.sleep(1)
        assert load.models["1"].is_closed
        with pytest.raises(NotFoundError, match="version 1 is not served"):
            await answer(repository, version=1)
    assert load.models["2"].is_closed


async def test_a_version_is_warmed_with_zeros_of_its_inputs_before_it_takes_requests(load, folder):
    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)

        runs = load.models["1"].runs
        assert [each["x"].shape for each in runs] == [(1, 3)] * 2
        assert [each["text"].tolist() for each in runs] == [b""] * 2
        assert states(repository) == {1: "AVAILABLE"}


@pytest.mark.parametrize(("damage", "message"), [(-1, "damaged"), (-2, "KeyError: 'of a damaged file'")])
async def test_a_bad_version_shows_its_error_and_is_loaded_again_only_when_its_folder_changed(
    load, folder, damage, message, caplog
):
    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        write(folder, 2, damage)
        await asyncio.sleep(20)

        assert len(load.paths) == 2
        assert repository.status("adder", 2)[0].error.message == message
        assert await answer(repository) == [10]
        with pytest.raises(UnavailableError, match=f"version 2 could not be loaded: {message}"):
            await answer(repository, version=2)

        write(folder, 2, 2000)
        await asyncio.sleep(6)
        assert await answer(repository) == [2000]
    assert f"model 'adder' version 2: not loaded: {message}" in caplog.text


async def test_what_was_loaded_of_a_bad_version_is_released(folder):
    loaded = []

    async def load(path):
        graph = ax.Graph()
        loaded.append(weakref.ref(graph))
        raise InvalidArgumentError(None, graph, "damaged")

    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        gc.collect()

        assert repository.status("adder", 1)[0].error.message == "damaged"
        assert [graph() for graph in loaded] == [None]


async def test_a_model_whose_folder_is_deleted_goes_on_serving(load, folder):
    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        shutil.rmtree(folder)
        await asyncio.sleep(20)

        assert await answer(repository) == [10]


async def test_a_model_whose_folder_comes_later_is_unavailable_until_then(load, folder):
    async with watching(load, folder) as repository:
        assert not repository.is_ready()
        with pytest.raises(UnavailableError, match="model 'adder': no version is available"):
            await answer(repository)

        write(folder, 7, 70)
        await asyncio.sleep(6)
        assert repository.is_ready()
        assert await answer(repository) == [70]


async def test_a_saved_model_without_versions_is_version_1(load, folder):
    folder.mkdir()
    (folder / "saved_model.pb").write_text("5")
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)

        assert states(repository) == {1: "AVAILABLE"}
        assert await answer(repository) == [5]


async def test_labels_name_versions(load, folder):
    write(folder, 1, 10)
    write(folder, 2, 20)
    async with watching(load, folder, policy=All(), labels={"stable": 1, "gone": 9}) as repository:
        await asyncio.sleep(1)

        assert await answer(repository, label="stable") == [10]
        assert repository.labels("adder") == {"stable": 1, "gone": 9}
        with pytest.raises(NotFoundError, match="version 9 is not served"):
            await answer(repository, label="gone")
        with pytest.raises(NotFoundError, match=r"no label 'other', only \['gone', 'stable'\]"):
            await answer(repository, label="other")


async def test_leaving_cancels_what_is_being_loaded_and_waits_for_leases(load, folder):
    write(folder, 1, 10)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        load.open.clear()
        write(folder, 2, 20)
        await asyncio.sleep(6)
        held = repository.lease("adder")
        served = held.__enter__()

        async def finish():
            await asyncio.sleep(3)
            assert not load.models["1"].is_closed
            await served.run("serving_default", {"x": np.zeros(1)})
            held.__exit__(None, None, None)

        finishing = asyncio.create_task(finish())
    assert finishing.done()
    assert load.models["1"].is_closed
    assert states(repository) == {2: "END", 1: "END"}


async def test_an_exception_of_the_block_is_raised_as_it_is(load, folder):
    write(folder, 1, 10)
    with pytest.raises(ZeroDivisionError):
        async with watching(load, folder):
            raise ZeroDivisionError
    assert load.paths == [] or load.models == {} or load.models["1"].is_closed


async def test_requests_while_versions_change_are_answered_by_one_of_them_each_and_none_is_lost(load, folder):
    random = Random(1)

    async def ask(repository):
        await asyncio.sleep(random.uniform(0, 60))
        with repository.lease("adder") as served:
            await asyncio.sleep(random.uniform(0, 10))
            result = await served.run("serving_default", {"x": np.zeros(1)})
            assert result["y"].tolist() == [served.version]
            return served.version

    write(folder, 1, 1)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        asking = [asyncio.create_task(ask(repository)) for _ in range(200)]
        for version in range(2, 10):
            await asyncio.sleep(6)
            write(folder, version, version if version % 3 else -1)
            random.choice(asking).cancel()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        await asyncio.sleep(10)

        assert {type(answer) for answer in answers} <= {int, asyncio.CancelledError}
        assert {answer for answer in answers if isinstance(answer, int)} >= {1, 2, 4, 5, 7, 8}
        assert [model.is_closed for model in load.models.values()] == [True] * 5 + [False]
        assert states(repository) == {9: "END", 8: "AVAILABLE", **dict.fromkeys(range(7, 0, -1), "END")}


class Recorded:
    """A listener that records runs, steps and versions that are closed."""

    def __init__(self):
        self.runs, self.steps, self.unloaded = [], [], []

    def on_run(self, run):
        self.runs.append((run.model, run.version, run.signature, run.rows, run.code))

    def on_step(self, model, version, rows):
        self.steps.append((model, version, rows))

    def on_unload(self, model, version):
        self.unloaded.append((model, version))


async def test_requests_are_joined_to_batches_of_the_sizes_that_were_warmed(folder):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        scalar = ax.placeholder(ax.float32, [], name="scalar")

    class Sums:
        def __init__(self):
            self.sizes = []
            self.is_closed = False
            session = ax.Session(graph=graph)
            self.session = session
            self.signatures = {
                "sums": Signature("sums", {"x": x}, {"y": x * 2.0}, self),
                "scalar": Signature("scalar", {"x": scalar}, {"y": scalar + 1.0}, self),
            }

        async def run(self, fetches, feed_dict=None):
            self.sizes.append([value.shape[0] if value.ndim else None for value in feed_dict.values()])
            return await self.session.run(fetches, feed_dict)

        async def close(self):
            await self.session.close()
            self.is_closed = True

    write(folder, 1, 0)
    with graph.as_default():
        model, recorded = Sums(), Recorded()

    async def load(path):
        return model

    async with watching(load, folder, batching=Batching(4, 0.01, 100, (2, 4))) as repository:
        repository.listeners.append(recorded)
        await asyncio.sleep(1)
        warmed, model.sizes = sorted(model.sizes, key=str), []

        with repository.lease("adder") as served:
            results = await asyncio.gather(
                *(served.run("sums", {"x": np.full((1, 2), n, np.float32)}) for n in range(3)),
                served.run("scalar", {"x": np.float32(4)}),
            )

    assert warmed == [[2]] * 2 + [[4]] * 2 + [[None]] * 4
    assert [result["y"].tolist() for result in results] == [[[0, 0]], [[2, 2]], [[4, 4]], 5]
    assert sorted(model.sizes, key=str) == [[4], [None]]
    assert sorted(recorded.steps) == [("adder", 1, 1), ("adder", 1, 4)]
    assert sorted(recorded.runs) == [("adder", 1, "scalar", 1, 0)] + [("adder", 1, "sums", 1, 0)] * 3
    assert model.is_closed
    assert recorded.unloaded == [("adder", 1)]


async def test_two_models_of_one_name_are_refused(load, folder):
    configs = [ModelConfig("adder", str(folder)), ModelConfig("adder", "elsewhere")]
    with pytest.raises(InvalidArgumentError, match="two models have one name"):
        async with Repository.watching(configs, load):
            pass


async def test_a_reload_adds_and_removes_models_and_keeps_the_others(load, folder, tmp_path):
    write(folder, 1, 10)
    write(folder, 2, 20)
    write(tmp_path / "later", 1, 30)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)
        with repository.lease("adder") as held:
            kept = ModelConfig("adder", str(folder), All(), {"old": 1})
            await repository.reload([kept, ModelConfig("later", str(tmp_path / "later"))])
            await asyncio.sleep(1)

            assert repository.names() == ["adder", "later"]
            assert states(repository) == {2: "AVAILABLE", 1: "AVAILABLE"}
            assert await answer(repository, label="old") == [10]
            assert held.version == 2
        await repository.reload([ModelConfig("later", str(tmp_path / "later"))])
        await asyncio.sleep(1)
        assert repository.names() == ["later"]
        assert load.models["2"].is_closed
    assert len(load.paths) == 3


async def test_a_reload_with_another_path_replaces_the_model(load, folder, tmp_path):
    write(folder, 1, 10)
    write(tmp_path / "other", 2, 20)
    async with watching(load, folder) as repository:
        await asyncio.sleep(1)

        await repository.reload([ModelConfig("adder", str(tmp_path / "other"))])
        await asyncio.sleep(1)

        assert await answer(repository) == [20]
        assert load.models["1"].is_closed


async def test_a_reload_of_two_models_with_one_name_is_refused(load, folder):
    async with watching(load, folder) as repository:
        with pytest.raises(InvalidArgumentError, match="two models have one name"):
            await repository.reload([ModelConfig("adder", "a"), ModelConfig("adder", "b")])

        assert repository.names() == ["adder"]
