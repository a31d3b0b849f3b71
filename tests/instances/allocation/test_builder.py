"""The builder of allocation instances."""

from __future__ import annotations

from sample_documents import ALLOCATION

import clusterplan
from clusterplan.instances.allocation.builder import Allocation
from clusterplan.instances.documents import parse_instance


def test_the_package_gives_the_builder() -> None:
    assert clusterplan.Allocation is Allocation


def test_an_allocation_is_that_of_its_document() -> None:
    ps, table = ALLOCATION["jobs"]
    (variant,) = ps["variants"]
    built = (
        clusterplan.Allocation("a", cpu=10, gpu=4)
        .add_jobs([ps])
        .add_job("k", {1: 1.5, 2: 2.5}, 100, per_worker={"gpu": 1})
        .build()
    )
    named = {**table, "variants": [{**table["variants"][0], "name": "default"}]}
    assert built.sha256() == parse_instance({**ALLOCATION, "jobs": [ps, named]}).sha256()
    again = clusterplan.Allocation("a", cpu=10, gpu=4).add_job(
        "j", variant["speed"], 100, workers=(1, 3), ps=2, per_worker={"cpu": 1, "gpu": 1}, per_ps={"cpu": 1}
    )
    assert again.build().jobs[0].variants[0].model_dump(exclude={"name"}) == built.jobs[0].variants[
        0
    ].model_dump(exclude={"name"})
