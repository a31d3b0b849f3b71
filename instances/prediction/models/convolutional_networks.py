"""Convolutional networks AlexNet, VGG, ResNet and Inception, with the shapes of torchvision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ..operators import Operator, linear
from .description import Layer, LayerModel, ModelDescription

CLASSES = 1000


class Picture:
    """Builder of a convolutional network for one input image; operators are added one by one.

    Parameters
    ----------
    size
        Height and width of the picture.
    """

    def __init__(self, size: int) -> None:
        self.channels, self.height, self.width = 3, size, size
        self.layers: list[Layer] = []
        self._open: list[Operator] = []

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the last operator's output (feature map)."""
        return self.channels, self.height, self.width

    @shape.setter
    def shape(self, shape: tuple[int, int, int]) -> None:
        self.channels, self.height, self.width = shape

    @property
    def elements(self) -> int:
        """Number of elements of the last operator's output for one sample."""
        return self.channels * self.height * self.width

    def conv(
        self,
        filters: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        *,
        normalised: bool = True,
        active: bool = True,
    ) -> Picture:
        """Add a convolution with batch normalisation, or else with a bias, and a ReLU."""
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        above, beside = (padding, padding) if isinstance(padding, int) else padding
        shape = (1, self.channels, filters, high, wide, self.height, self.width, stride, above, beside, 1)
        parameters = self.channels * filters * high * wide + (0 if normalised else filters)
        operator = Operator("conv", shape, parameters=parameters)
        self._open.append(operator)
        self.shape = (filters, *operator.output_size)
        rows = self.height * self.width
        if normalised:
            self._open.append(Operator("batch_norm", (rows, filters), parameters=2 * filters))
        if active:
            self._open.append(Operator("relu", (rows, filters), saved=0))
        return self

    def pool(self, kernel: int, stride: int, padding: int = 0) -> Picture:
        """Add a pooling operator with a square window."""
        shape = (1, self.channels, self.height, self.width, kernel, stride, padding)
        operator = Operator("pool", shape)
        self._open.append(operator)
        self.shape = (self.channels, *operator.output_size)
        return self

    def add(self) -> Picture:
        """Add a residual connection and its ReLU."""
        rows = self.height * self.width
        self._open += [
            Operator("add", (rows, self.channels)),
            Operator("relu", (rows, self.channels), saved=0),
        ]
        return self

    def dense(self, outputs: int, *, active: bool = True) -> Picture:
        """Add a fully connected layer on all elements of a sample."""
        self._open.append(linear(1, self.elements, outputs))
        if active:
            self._open.append(Operator("relu", (1, outputs), saved=0))
        self.shape = (outputs, 1, 1)
        return self

    def end(self, name: str) -> Picture:
        """Collect the operators since the last call as a layer with this name; return the builder."""
        self.layers.append(Layer(name, tuple(self._open), self.elements))
        self._open = []
        return self

    def branches(self, *branches: Callable[[Picture], object]) -> Picture:
        """Add branches that start at the same feature map, and concatenate their channels."""
        start, channels = self.shape, 0
        for branch in branches:
            self.shape = start
            branch(self)
            channels += self.channels
        self.channels = channels
        self._open.append(Operator("copy", (self.height * self.width, channels), saved=0))
        return self


def alexnet() -> ModelDescription:
    """Return AlexNet (Krizhevsky 2014, one column)."""
    net = Picture(224)
    net.conv(64, 11, 4, 2, normalised=False).pool(3, 2).end("conv 1")
    net.conv(192, 5, 1, 2, normalised=False).pool(3, 2).end("conv 2")
    net.conv(384, 3, 1, 1, normalised=False).end("conv 3")
    net.conv(256, 3, 1, 1, normalised=False).end("conv 4")
    net.conv(256, 3, 1, 1, normalised=False).pool(3, 2).end("conv 5")
    for index, outputs in enumerate((4096, 4096, CLASSES)):
        net.dense(outputs, active=index < 2).end(f"linear {index + 1}")
    return LayerModel("alexnet", "Krizhevsky 2014, arXiv:1404.5997", one_sample=tuple(net.layers))


VGG_STAGES: Mapping[str, tuple[int, ...]] = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}


def vgg(name: str) -> ModelDescription:
    """Return a VGG network (Simonyan & Zisserman 2015)."""
    net, number = Picture(224), 0
    for filters, count in zip((64, 128, 256, 512, 512), VGG_STAGES[name], strict=True):
        for last in range(count):
            number += 1
            net.conv(filters, 3, 1, 1, normalised=False)
            if last == count - 1:
                net.pool(2, 2)
            net.end(f"conv {number}")
    for index, outputs in enumerate((4096, 4096, CLASSES)):
        net.dense(outputs, active=index < 2).end(f"linear {index + 1}")
    return LayerModel(name, "Simonyan & Zisserman 2015, table 1", one_sample=tuple(net.layers))


RESNET_STAGES: Mapping[str, tuple[int, ...]] = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}


def resnet(name: str) -> ModelDescription:
    """Return a residual network (He et al. 2016); bottlenecks stride in their middle convolution."""
    bottleneck = int(name.removeprefix("resnet")) >= 50
    net, number = Picture(224), 0
    net.conv(64, 7, 2, 3).pool(3, 2, 1).end("stem")
    for stage, count in enumerate(RESNET_STAGES[name]):
        width = 64 * 2**stage
        for index in range(count):
            number += 1
            stride = 2 if stage > 0 and index == 0 else 1
            start, outputs = net.shape, 4 * width if bottleneck else width
            if index == 0 and (stride > 1 or start[0] != outputs):
                net.conv(outputs, 1, stride, active=False)
                net.shape = start
            if bottleneck:
                net.conv(width, 1).conv(width, 3, stride, 1).conv(outputs, 1, active=False)
            else:
                net.conv(width, 3, stride, 1).conv(outputs, 3, 1, 1, active=False)
            net.add().end(f"block {number}")
    net.pool(7, 7).dense(CLASSES, active=False).end("linear")
    return LayerModel(name, "He et al. 2016, table 1", one_sample=tuple(net.layers))


def inception_v3() -> ModelDescription:
    """Return Inception v3 (Szegedy et al. 2016) without the auxiliary classifier."""
    net = Picture(299)
    net.conv(32, 3, 2).conv(32, 3).conv(64, 3, 1, 1).pool(3, 2).end("stem 1")
    net.conv(80, 1).conv(192, 3).pool(3, 2).end("stem 2")
    for index, pooled in enumerate((32, 64, 64)):
        net.branches(
            lambda n: n.conv(64, 1),
            lambda n: n.conv(48, 1).conv(64, 5, 1, 2),
            lambda n: n.conv(64, 1).conv(96, 3, 1, 1).conv(96, 3, 1, 1),
            partial(_pooled, pooled),
        ).end(f"mixed 5{'bcd'[index]}")
    net.branches(
        lambda n: n.conv(384, 3, 2),
        lambda n: n.conv(64, 1).conv(96, 3, 1, 1).conv(96, 3, 2),
        lambda n: n.pool(3, 2),
    ).end("mixed 6a")
    for index, w in enumerate((128, 160, 160, 192)):
        net.branches(
            lambda n: n.conv(192, 1),
            partial(_across, w),
            partial(_across_twice, w),
            lambda n: n.pool(3, 1, 1).conv(192, 1),
        ).end(f"mixed 6{'bcde'[index]}")
    net.branches(
        lambda n: n.conv(192, 1).conv(320, 3, 2),
        lambda n: n.conv(192, 1).conv(192, (1, 7), 1, (0, 3)).conv(192, (7, 1), 1, (3, 0)).conv(192, 3, 2),
        lambda n: n.pool(3, 2),
    ).end("mixed 7a")
    for letter in "bc":
        net.branches(
            lambda n: n.conv(320, 1),
            lambda n: n.conv(384, 1).branches(_wide, _high),
            lambda n: n.conv(448, 1).conv(384, 3, 1, 1).branches(_wide, _high),
            lambda n: n.pool(3, 1, 1).conv(192, 1),
        ).end(f"mixed 7{letter}")
    net.pool(8, 8).dense(CLASSES, active=False).end("linear")
    return LayerModel("inception-v3", "Szegedy et al. 2016, arXiv:1512.00567", one_sample=tuple(net.layers))


def _pooled(filters: int, net: Picture) -> None:
    net.pool(3, 1, 1).conv(filters, 1)


def _across(filters: int, net: Picture) -> None:
    net.conv(filters, 1).conv(filters, (1, 7), 1, (0, 3)).conv(192, (7, 1), 1, (3, 0))


def _across_twice(filters: int, net: Picture) -> None:
    net.conv(filters, 1).conv(filters, (7, 1), 1, (3, 0)).conv(filters, (1, 7), 1, (0, 3))
    net.conv(filters, (7, 1), 1, (3, 0)).conv(192, (1, 7), 1, (0, 3))


def _wide(net: Picture) -> None:
    net.conv(384, (1, 3), 1, (0, 1))


def _high(net: Picture) -> None:
    net.conv(384, (3, 1), 1, (1, 0))


NETWORKS: Mapping[str, Callable[[], ModelDescription]] = {
    "alexnet": alexnet,
    **{name: partial(vgg, name) for name in VGG_STAGES},
    **{name: partial(resnet, name) for name in RESNET_STAGES},
    "inception-v3": inception_v3,
}
"""Name → function that returns the network."""
