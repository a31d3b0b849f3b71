"""Stages of several replicas that all-reduce their weights, as in PipeDream: each number of replicas a type.

The all-reduce of m replicas grows with m, so that no share of a time that units divide can say it. One unit
of the type `m x NAME` is a whole stage of m replicas instead, with times of its own, and an hourly budget
limits all these types together.
"""

from __future__ import annotations

from .instance import Layer, StageType, StagingInstance


def with_replicas(
    instance: StagingInstance, bytes_per_s: float, all_reduce: float = 2.0, transfers: float = 2.0
) -> StagingInstance:
    """Return a graph on one type with replicated stages in place of stages of several units.

    A batch is one replica's, so that m replicas share the time of a layer of C seconds and W bytes of
    weights, whose α is parallel: C (1 − α) + (C α + all_reduce (m − 1)/m W/bytes_per_s) / m. Times of
    communication that layers have already are left out.

    Parameters
    ----------
    instance
        Its type has a limit and a price, and there is no hourly budget.
    bytes_per_s
        Speed of the link of each replica.
    all_reduce
        How often a ring moves the weights: once to add up gradients and once to hand out the sums.
    transfers
        How often a tensor crosses the link between two stages: as activations and as their gradients.

    Raises
    ------
    ValueError
        If the instance is another.
    """
    if not instance.is_graph or len(instance.types) != 1 or instance.hourly_budget_usd is not None:
        raise ValueError("replicas need a graph on one type without an hourly budget")
    kind = instance.types[0]
    if kind.limit is None or not kind.price_usd_per_hour:
        raise ValueError(f"replicas need a limit and a price of type {kind.name!r}")
    sizes = {f"{m} x {kind.name}": m for m in range(1, kind.limit + 1)}

    def type_of(name: str, m: int) -> StageType:
        price = m * kind.price_usd_per_hour
        return kind.model_copy(update={"name": name, "price_usd_per_hour": price, "limit": None})

    def layer_of(layer: Layer) -> Layer:
        share = layer.compute_parallel
        alpha = share[kind.name] if isinstance(share, dict) else share
        seconds, reduced = layer.compute_s[kind.name], all_reduce * layer.weight_bytes / bytes_per_s
        sent = transfers * layer.output_bytes / bytes_per_s
        return layer.model_copy(
            update={
                "compute_s": {
                    name: seconds * (1 - alpha) + (seconds * alpha + reduced * (m - 1) / m) / m
                    for name, m in sizes.items()
                },
                "compute_parallel": 0.0,
                "communication_s": {},
                "transfer_s": {name: sent / m for name, m in sizes.items()},
            }
        )

    return instance.model_copy(
        update={
            "types": tuple(type_of(name, m) for name, m in sizes.items()),
            "layers": tuple(map(layer_of, instance.layers)),
            "hourly_budget_usd": kind.limit * kind.price_usd_per_hour,
            "most_units_per_stage": 1,
        }
    )
