"""`ax.test` about the environment of tests, and `ax.resource_loader`."""

from __future__ import annotations

import os
import unittest.mock

import pytest

import aioexec as ax
from aioexec.test import environment


def test_folders_for_tests_are_new(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_TMPDIR", str(tmp_path))

    one, other = ax.test.get_temp_dir(), ax.test.get_temp_dir("a.b")

    assert one != other
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(each) for each in (one, other))


def devices(*kinds):
    return lambda: [unittest.mock.Mock(device_type=kind, physical_device_desc=text) for kind, text in kinds]


def test_gpus_are_found_by_the_list_of_devices(monkeypatch):
    monkeypatch.setattr(environment, "list_local_devices", devices(("CPU", "")))
    assert (ax.test.is_gpu_available(), ax.test.gpu_device_name()) == (False, "")

    text = "device: 0, name: NVIDIA H100, compute capability: 9.0"
    monkeypatch.setattr(environment, "list_local_devices", devices(("CPU", ""), ("GPU", text)))
    assert ax.test.is_gpu_available(cuda_only=True)
    assert ax.test.is_gpu_available(min_cuda_compute_capability=(7, 0))
    assert not ax.test.is_gpu_available(min_cuda_compute_capability=(9, 1))


def test_what_the_package_is_built_with():
    assert ax.test.is_built_with_cuda() == ax.test.is_built_with_gpu_support()
    assert not ax.test.is_built_with_rocm()
    assert not ax.test.is_built_with_xla()
    assert ax.test.mock is unittest.mock


def test_graph_defs_are_compared_node_by_node():
    def graph(value, *, name="a"):
        with ax.Graph().as_default() as made:
            ax.constant(value, name=name)
        return made.as_graph_def()

    ax.test.assert_equal_graph_def(graph(1), graph(1))
    with pytest.raises(AssertionError, match="node 'a' differs"):
        ax.test.assert_equal_graph_def(graph(1), graph(2))
    with pytest.raises(AssertionError, match="'a' is in one"):
        ax.test.assert_equal_graph_def(graph(1), graph(1, name="b"))
    with pytest.raises(AssertionError, match="differs"):
        ax.test.assert_equal_graph_def(graph("x_temp_0a/part"), graph("x_temp_1b/part"))
    ax.test.assert_equal_graph_def(graph("x_temp_0a/part"), graph("x_temp_1b/part"), checkpoint_v2=True)


def test_main_runs_the_tests_of_a_program(monkeypatch):
    called = unittest.mock.Mock()
    monkeypatch.setattr(unittest, "main", called)

    ax.test.main(["program", "-v"])

    called.assert_called_once_with(argv=["program", "-v"])


def test_files_beside_a_program_are_found():
    here = os.path.dirname(__file__)

    assert ax.resource_loader.get_data_files_path() == here
    assert ax.resource_loader.get_root_dir_with_all_resources() == here
    assert ax.resource_loader.get_path_to_datafile("a.txt") == os.path.join(here, "a.txt")
    assert ax.resource_loader.load_resource(os.path.basename(__file__)).startswith(b'"""`ax.test`')
    assert ax.resource_loader.readahead_file_path("a") == "a"
