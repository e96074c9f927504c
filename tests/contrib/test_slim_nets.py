"""The networks of `ax.contrib.slim.nets`: their numbers of parameters, names of variables, end points and outputs.

Numbers of parameters are those of the papers' networks as torchvision has them: there, batch normalization has a scale always.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError

slim = ax.contrib.slim
nets = slim.nets


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as graph:
        yield graph


def images(size: int, batch: int = 1) -> ax.Tensor:
    return ax.zeros([batch, size, size, 3])


def parameters() -> int:
    """The number of trainable parameters; a bias of a normalized layer counts twice if there is no scale."""
    total = 0
    names = {variable.op.name for variable in ax.trainable_variables()}
    for variable in ax.trainable_variables():
        name = variable.op.name
        has_no_scale = name.endswith("beta") and name.replace("beta", "gamma") not in names
        total += variable.shape.num_elements() * (1 + has_no_scale)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("vgg", "vgg_a", 132_863_336),
        ("vgg", "vgg_16", 138_357_544),
        ("vgg", "vgg_19", 143_667_240),
        ("resnet_v1", "resnet_v1_50", 25_557_032),
        ("resnet_v1", "resnet_v1_101", 44_549_160),
        ("resnet_v1", "resnet_v1_152", 60_192_808),
        ("inception", "inception_v1", 6_624_904),
        ("inception", "inception_v3", 27_161_264),
    ],
)
def test_a_network_has_the_parameters_of_its_paper(module, name, expected):
    network = getattr(getattr(nets, module), name)
    arguments = nets.resnet_v1.resnet_arg_scope() if "resnet" in name else {}
    if "inception" in name:
        arguments = getattr(nets.inception, f"{name}_arg_scope")()

    with slim.arg_scope(arguments):
        logits, _ = network(images(network.default_image_size), 1000)

    assert parameters() == expected
    assert logits.shape.num_elements() == 1000


def test_vgg_has_the_scopes_of_its_checkpoints():
    with slim.arg_scope(nets.vgg.vgg_arg_scope()):
        logits, end_points = nets.vgg.vgg_16(images(224), 10, is_training=False)

    names = [variable.op.name for variable in ax.global_variables()]
    assert names[:4] == [
        "vgg_16/conv1/conv1_1/weights",
        "vgg_16/conv1/conv1_1/biases",
        "vgg_16/conv1/conv1_2/weights",
        "vgg_16/conv1/conv1_2/biases",
    ]
    assert names[-2:] == ["vgg_16/fc8/weights", "vgg_16/fc8/biases"]
    assert len(names) == 32
    assert end_points["vgg_16/conv5/conv5_3"].shape.as_list() == [1, 14, 14, 512]
    assert end_points["vgg_16/fc8"] is logits
    assert len(ax.losses.get_regularization_losses()) == 16
    assert (nets.vgg.vgg_d, nets.vgg.vgg_e) == (nets.vgg.vgg_16, nets.vgg.vgg_19)


@pytest.mark.parametrize(("network", "size", "kernel"), [("alexnet_v2", 224, 5), ("overfeat", 231, 6)])
def test_older_networks_have_heads_of_convolutions(network, size, kernel):
    module = getattr(nets, network.removesuffix("_v2"))
    build = getattr(module, network)
    with slim.arg_scope(getattr(module, f"{network}_arg_scope")()):
        logits, end_points = build(images(size), 10)
        larger, _ = build(images(size + 64), 10, spatial_squeeze=False, scope="larger")

    shapes = {variable.op.name: variable.shape.as_list() for variable in ax.global_variables()}
    assert build.default_image_size == size
    assert shapes[f"{network}/fc6/weights"][:2] == [kernel, kernel]
    assert shapes[f"{network}/conv1/weights"] == [11, 11, 3, 64]
    assert logits.shape.as_list() == [1, 10]
    assert larger.shape.as_list() == [1, 3, 3, 10]
    assert set(end_points) >= {f"{network}/conv1", f"{network}/pool5", f"{network}/fc7", f"{network}/fc8"}


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_residual_networks_have_the_scopes_of_their_checkpoints(version):
    module = getattr(nets, f"resnet_v{version}")
    with slim.arg_scope(module.resnet_arg_scope()):
        logits, end_points = getattr(module, f"resnet_v{version}_50")(images(224), 10, is_training=False)

    scope = f"resnet_v{version}_50"
    unit = f"{scope}/block2/unit_4/bottleneck_v{version}"
    names = {variable.op.name for variable in ax.global_variables()}
    assert logits.shape.as_list() == [1, 1, 1, 10]
    assert end_points[f"{scope}/block4"].shape.as_list() == [1, 7, 7, 2048]
    assert end_points[f"{unit}/conv2"].shape.as_list() == [1, 14, 14, 128]
    assert end_points["predictions"].shape.as_list() == [1, 1, 1, 10]
    assert {f"{unit}/conv1/weights", f"{unit}/conv2/BatchNorm/moving_mean"} <= names
    if version == 1:
        assert f"{scope}/conv1/BatchNorm/gamma" in names
    else:
        assert {f"{unit}/preact/beta", f"{scope}/postnorm/gamma", f"{scope}/conv1/biases"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
async def test_an_output_stride_spreads_the_kernels_instead(version):
    """With the same weights, the features of stride 8 at each fourth place are those of stride 32."""
    module = getattr(nets, f"resnet_v{version}")
    block = getattr(module, f"resnet_v{version}_block")
    build = getattr(module, f"resnet_v{version}")
    blocks = [block(f"block{number}", number, 2, 2) for number in (1, 2, 3)]
    pixels = ax.constant(np.random.default_rng(1).normal(size=(2, 65, 65, 3)), ax.float32)
    with slim.arg_scope(module.resnet_arg_scope()):
        options: dict[str, Any] = {"is_training": False, "global_pool": False, "scope": "net"}
        dense, _ = build(pixels, blocks, output_stride=8, **options)
        coarse, _ = build(pixels, blocks, reuse=True, **options)

        with pytest.raises(GraphValueError, match="multiple of 4"):
            build(pixels, blocks, output_stride=6, scope="bad")
        with pytest.raises(GraphValueError, match="cannot be reached"):
            build(pixels, blocks, output_stride=64, scope="worse")

    assert (dense.shape[1], coarse.shape[1]) == (9, 3)
    differences = dense[:, ::4, ::4] - coarse
    variables = ax.global_variables_initializer()

    async with ax.Session() as session:
        await session.run(variables)
        difference, scale = await session.run(
            [ax.reduce_max(ax.abs(differences)), ax.reduce_max(ax.abs(coarse))]
        )

    assert scale > 0
    assert difference < 1e-4 * scale


@pytest.mark.slow
def test_inception_v1_has_the_scopes_of_its_checkpoints():
    with slim.arg_scope(nets.inception.inception_v1_arg_scope()):
        logits, end_points = nets.inception.inception_v1(images(224), 10, is_training=False)

    names = {variable.op.name for variable in ax.global_variables()}
    assert logits.shape.as_list() == [1, 10]
    assert end_points["Mixed_4f"].shape.as_list() == [1, 14, 14, 832]
    assert end_points["Mixed_5c"].shape.as_list() == [1, 7, 7, 1024]
    assert "InceptionV1/Mixed_5b/Branch_2/Conv2d_0a_3x3/weights" in names
    assert "InceptionV1/Mixed_5c/Branch_2/Conv2d_0b_3x3/BatchNorm/beta" in names
    assert "InceptionV1/Logits/Conv2d_0c_1x1/biases" in names
    assert len(ax.get_collection("moving_vars")) == 2 * 57


@pytest.mark.slow
def test_inception_v2_has_the_shapes_of_its_paper():
    with slim.arg_scope(nets.inception.inception_v2_arg_scope()):
        logits, end_points = nets.inception.inception_v2(images(224), 10, is_training=False)

    depths = {name: tensor.shape.as_list()[1:] for name, tensor in end_points.items() if "Mixed" in name}
    assert depths == {
        "Mixed_3b": [28, 28, 256],
        "Mixed_3c": [28, 28, 320],
        "Mixed_4a": [14, 14, 576],
        "Mixed_4b": [14, 14, 576],
        "Mixed_4c": [14, 14, 576],
        "Mixed_4d": [14, 14, 576],
        "Mixed_4e": [14, 14, 576],
        "Mixed_5a": [7, 7, 1024],
        "Mixed_5b": [7, 7, 1024],
        "Mixed_5c": [7, 7, 1024],
    }
    names = {variable.op.name for variable in ax.global_variables()}
    assert "InceptionV2/Conv2d_1a_7x7/depthwise_weights" in names
    assert "InceptionV2/Mixed_4a/Branch_1/Conv2d_1a_3x3/weights" in names
    assert logits.shape.as_list() == [1, 10]
    assert end_points["Predictions"].shape.as_list() == [1, 10]


@pytest.mark.slow
def test_inception_v3_has_the_scopes_of_its_checkpoints_and_shrinks():
    with slim.arg_scope(nets.inception.inception_v3_arg_scope()):
        logits, end_points = nets.inception.inception_v3(
            images(160), 10, is_training=False, depth_multiplier=0.25
        )

    names = {variable.op.name for variable in ax.global_variables()}
    assert logits.shape.as_list() == end_points["AuxLogits"].shape.as_list() == [1, 10]
    assert end_points["Mixed_7c"].shape.as_list() == [1, 3, 3, 512]
    assert "InceptionV3/Mixed_5c/Branch_1/Conv_1_0c_5x5/weights" in names
    assert "InceptionV3/Mixed_7c/Branch_1/Conv2d_0c_3x1/weights" in names
    assert "InceptionV3/AuxLogits/Conv2d_2b_1x1/biases" in names


def test_a_network_ends_at_an_end_point():
    for build in (nets.inception.inception_v2_base, nets.inception.inception_v3_base):
        net, end_points = build(images(64), "MaxPool_3a_3x3", depth_multiplier=0.5)
        assert list(end_points)[-1] == "MaxPool_3a_3x3"
        assert end_points["MaxPool_3a_3x3"] is net
        with pytest.raises(GraphValueError, match="Unknown final endpoint nowhere"):
            build(images(96), "nowhere", depth_multiplier=0.1, scope=f"other_{build.__name__}")
        with pytest.raises(GraphValueError, match="not greater than zero"):
            build(images(64), depth_multiplier=0)
