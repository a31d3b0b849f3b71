"""Models that are lists of layers: what a sample of each layer asks for, multiplied by the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...common.errors import OptionError
from ..operators import SHAPES, Operator
from .description import Layer, ModelDescription, Setting

GROWS: Mapping[str, str] = {
    **dict.fromkeys(SHAPES, "rows"),
    **dict.fromkeys(("bmm", "conv", "pool"), "batch"),
}
"""Kind of operator → the size that grows with the batch."""


@dataclass(frozen=True)
class LayerModel(ModelDescription):
    """A model given as layers of one sample; its tensors cannot be shared.

    Parameters
    ----------
    one_sample
        The layers for a batch of 1.
    alike
        Indices of a layer and of an operator of it that works on weights alone, whatever the batch.
    """

    one_sample: tuple[Layer, ...] = ()
    alike: frozenset[tuple[int, int]] = frozenset()

    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the layers for a batch."""
        if setting.tensor_parallel > 1:
            raise OptionError(
                f"{self.name}: tensor_parallel {setting.tensor_parallel}: only transformers share tensors"
            )
        if setting.sequence is not None:
            raise OptionError(f"{self.name}: has no sequence; leave it out")
        return tuple(
            replace(
                layer,
                operators=tuple(
                    replace(operator, precision=setting.precision)
                    if (index, number) in self.alike
                    else _for_batch(operator, setting)
                    for number, operator in enumerate(layer.operators)
                ),
                output=layer.output * setting.batch,
            )
            for index, layer in enumerate(self.one_sample)
        )


def _for_batch(operator: Operator, setting: Setting) -> Operator:
    index = SHAPES[operator.kind].index(GROWS[operator.kind])
    shape = list(operator.shape)
    shape[index] *= setting.batch
    saved = None if operator.saved is None else operator.saved * setting.batch
    return replace(operator, shape=tuple(shape), precision=setting.precision, saved=saved)
