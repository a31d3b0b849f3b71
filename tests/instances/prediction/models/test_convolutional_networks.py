"""Networks of convolutions: as many operations as their papers say."""

from __future__ import annotations

import pytest

from clusterplan.instances.prediction.models.convolutional_networks import NETWORKS, Picture, resnet
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.operators import flops

BILLIONS = {
    "alexnet": 0.71,
    "vgg16": 15.5,
    "vgg19": 19.6,
    "resnet50": 4.1,
    "resnet152": 11.5,
    "inception-v3": 5.7,
}
"""Multiplications and additions of a sample, together one, as the papers and torchvision count them."""


@pytest.mark.parametrize("name", BILLIONS)
def test_operations_are_those_of_the_paper(name: str) -> None:
    operators = NETWORKS[name]().operators(Setting(training=False))
    products = flops(op for op in operators if op.kind in ("conv", "linear"))
    assert products / 2e9 == pytest.approx(BILLIONS[name], rel=0.02)


def test_branches_join_their_channels() -> None:
    net = Picture(32).branches(lambda n: n.conv(4, 1), lambda n: n.conv(6, 3, 1, 1))
    assert net.shape == (10, 32, 32)


def test_a_residual_network_ends_at_its_classes() -> None:
    layers = resnet("resnet18").layers(Setting(3))
    assert layers[-1].output == 3000
    assert len(layers) == 10
