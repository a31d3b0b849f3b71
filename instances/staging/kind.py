"""Registration of staging instances: data model, builder, and a tiny example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ..common.kind import Builder, InstanceKind, Rows
from .generate import generate_staging
from .instance import StagingInstance, with_seconds

STAGING = InstanceKind(
    model=StagingInstance,
    lists=("types", "layers"),
    tiny=lambda: generate_staging(3, 2, "tight", seed=1),
    resolved=lambda data, source, _: with_seconds(data, source),
)


class Staging(Builder[StagingInstance]):
    """Builds a staging instance.

    Parameters
    ----------
    samples, epochs
        Amount of training.
    probe_batch
        Samples to which the times of layers refer.
    fields
        Other fields of `StagingInstance`, such as `objective` or `cost_limit_usd`.
    """

    KIND = STAGING

    def __init__(
        self, name: str = "staging", *, samples: float, probe_batch: float, epochs: float = 1.0, **fields: Any
    ) -> None:
        training = {"samples": samples, "epochs": epochs}
        super().__init__(name, training=training, probe_batch=probe_batch, **fields)

    def add_type(self, name: str, price_usd_per_hour: float | None = None, **fields: Any) -> Self:
        """Add a type of hardware, with other fields of `StageType` such as `limit`."""
        return self._add("types", {"name": name, "price_usd_per_hour": price_usd_per_hour, **fields})

    def add_types(self, rows: Rows) -> Self:
        """Add types of hardware given as in a document."""
        return self._add_all("types", rows)

    def add_layer(
        self, name: str, compute_s: Mapping[str, float] | None = None, *, compute_parallel: Any, **fields: Any
    ) -> Self:
        """Add a layer.

        Parameters
        ----------
        compute_s
            Type → seconds for a probe batch on one unit; or ``a100_ms=…``, ``a100_us=…`` among the fields.
        compute_parallel
            α, the share of the computation that further units divide; one number, or one for each type.
        fields
            Other fields of `Layer`, such as `memory_gib`.
        """
        given = {"name": name, "compute_s": compute_s, "compute_parallel": compute_parallel}
        return self._add("layers", {**given, **fields})

    def add_layers(self, rows: Rows) -> Self:
        """Add layers given as in a document; a column a100_ms holds milliseconds on the type a100."""
        return self._add_all("layers", rows)
