"""What to rent: the chosen offer against all that could be rented.

Why there is no offer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from forecasts import forecasts_on, rented

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction import predict
from clusterplan.instances.prediction.epochs import EpochRecord, Work
from clusterplan.instances.prediction.forecast import Forecast, Parallelism, Setup, stages_of
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.offers import (
    OF_MEMORY,
    Offer,
    RequestedParallelism,
    best_of,
    best_offer,
    why_not,
)


def _groups(name: str, hardware: str, batch: int = 4, **limits: int) -> list[Forecast]:
    given = rented(hardware, limits=limits or None)
    return [forecasts_on(name, given, Setting(batch, 512, "bf16", tensor_parallel=t))[0] for t in (1, 2, 4)]


GPT2, LLAMA = _groups("gpt2", "l4"), _groups("llama-2-7b", "a100-40", 1)


def _all(groups: list[Forecast], work: Work, most: int) -> list[Offer]:
    """Return every offer of up to so many GPUs in every way that fits."""
    found = []
    for one in groups:
        tensor = one.setting.tensor_parallel
        for pipeline in (1, 2, 4, 8):
            for data in range(1, most // (tensor * pipeline) + 1):
                for zero in range(4):
                    for again in (False, True):
                        way = Parallelism(tensor, pipeline, data, zero, again)
                        for server in one.rented.servers:
                            if tensor > server.gpus:
                                continue
                            batches = work.batches(one.batch, data)
                            setup = Setup(one, server, stages_of(one, pipeline, again), way, batches)
                            if setup.memory.total <= one.rented.memory_bytes:
                                step = setup.forecast()
                                epochs = work.epochs_at(step.samples)
                                found.append(Offer(one, server, way, step, epochs, work))
    return found


@pytest.mark.parametrize(
    ("groups", "work"),
    [(GPT2, Work(1e6, within_h=4)), (GPT2, Work(1e6)), (LLAMA, Work(1e5, within_h=12))],
    ids=["gpt2", "no deadline", "llama"],
)
def test_nothing_in_time_is_much_cheaper(groups: list[Forecast], work: Work) -> None:
    """Replicas beyond those that are enough are not tried, so that more of them may be a little cheaper."""
    found = best_offer(groups, work, RequestedParallelism())
    best = min(_all(groups, work, 16), key=Offer.order)
    assert found is not None
    assert found.cost_usd is not None
    assert best.cost_usd is not None
    assert found.in_time == best.in_time
    assert found.cost_usd.seconds <= 1.01 * best.cost_usd.seconds


def test_in_time_is_said_of_the_whole_interval() -> None:
    hours = best_offer(GPT2, Work(1e6), RequestedParallelism(gpus=1))
    assert hours is not None
    middle = hours.hours
    for within, said in ((middle.high * 1.01, "surely"), (middle.seconds * 1.01, "probably"), (0.01, "late")):
        found = best_offer(GPT2, Work(1e6, within_h=within), RequestedParallelism(gpus=1))
        assert found is not None
        assert found.in_time == said


def test_a_nearer_deadline_takes_more_gpus() -> None:
    counts = []
    for within in (16, 8, 4, 2):
        found = best_offer(GPT2, Work(1e6, within_h=within), RequestedParallelism())
        assert found is not None
        assert found.in_time == "surely"
        counts.append(found.parallelism.gpus)
    assert counts == sorted(counts)


def test_what_is_asked_for_is_kept() -> None:
    wanted = RequestedParallelism(gpus=8, tensor=2, pipeline=2, zero_stage=1, recompute=True)
    found = best_offer(GPT2[1:2], Work(), wanted)
    assert found is not None
    assert found.parallelism == Parallelism(2, 2, 2, 1, True)


def test_limits_hold_and_machines_are_whole() -> None:
    groups = _groups("gpt2", "a100-40", **{"a100-40": 8})
    found = best_offer(groups, Work(1e9, within_h=1), RequestedParallelism())
    assert found is not None
    assert found.in_time == "late"
    assert (found.gpus, found.machines) == (8, 1)
    assert best_offer(groups, Work(), RequestedParallelism(gpus=16)) is None


@pytest.mark.parametrize("within", [0.1, 0.25, 0.4])
def test_many_replicas_use_all_that_is_paid(within: float) -> None:
    found = best_offer(
        _groups("gpt2", "a100-40")[:1], Work(5e6, within_h=within), RequestedParallelism(pipeline=1)
    )
    assert found is not None
    assert found.gpus > 16
    assert found.parallelism.gpus == found.gpus


def test_a_global_batch_is_shared_out() -> None:
    found = best_offer(GPT2, Work(1e9, within_h=1, global_batch=64), RequestedParallelism())
    assert found is not None
    assert found.parallelism.data <= 64 // 4
    assert found.step.samples >= 64


def test_epochs_grow_with_the_batch() -> None:
    records = tuple(EpochRecord(batch, 2 + batch / 64) for batch in (16.0, 32.0, 64.0, 128.0, 256.0))
    few, many = (
        best_offer(GPT2[:1], Work(1e6, records=records), RequestedParallelism(gpus=n, pipeline=1))
        for n in (1, 4)
    )
    assert few is not None
    assert many is not None
    assert few.epochs.seconds == pytest.approx(2.5)
    assert many.epochs.seconds == pytest.approx(4.0)


def test_epochs_outside_the_records_are_outside_what_was_measured() -> None:
    records = tuple(EpochRecord(batch, 3.0) for batch in (4.0, 8.0, 16.0))
    found = best_offer(GPT2[:1], Work(1e6, records=records), RequestedParallelism(gpus=1))
    assert found is not None
    measured = replace(found, step=replace(found.step, step=replace(found.step.step, inside=True)))
    assert found.step.samples > 16
    assert not measured.hours.inside
    assert replace(measured, work=Work(1e6), epochs=Work(1e6).epochs_at(32)).hours.inside
    assert "records" in measured.hours.basis


def test_the_best_of_several_sorts_is_priced_and_fast() -> None:
    cheap, unpriced = (
        best_offer(GPT2, Work(), RequestedParallelism()),
        best_offer(_groups("gpt2", "rtx-3090"), Work(), RequestedParallelism()),
    )
    assert best_of([None, unpriced, cheap]) is cheap
    assert best_of([None]) is None


def test_of_gpus_that_cost_nothing_as_few_are_taken_as_are_enough() -> None:
    given = rented("l4", prices={"l4": 0.0})
    groups = [forecasts_on("gpt2", given, Setting(4, 512, "bf16", tensor_parallel=t))[0] for t in (1, 2)]
    found = best_offer(groups, Work(1e6), RequestedParallelism())
    assert found is not None
    assert found.gpus == 1


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"gpus": 3, "tensor": 2}, {"tensor": 0}, {"zero_stage": 9}])
def test_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        RequestedParallelism(**wrong)


@pytest.mark.parametrize(
    ("more", "short", "advice"),
    [
        ({"limits": {"h100": 4}, "gpus": 8}, "limit of 4 GPUs, 8 needed", "raise --limit to 8"),
        ({"limits": {"h100": 4}, "pipeline": 8}, "limit of 4 GPUs, 8 needed", "fewer GPUs"),
        ({"tensor": 12}, "no server of 12 GPUs", "--tensor of at most 8"),
        ({"global_batch": 64, "gpus": 100}, "64 samples for 100 replicas", "larger --global-batch"),
        ({"batch": 100_000}, "does not fit", "smaller --batch"),
        ({"batch": 100_000, "limits": {"h100": 4}}, "does not fit", "smaller --batch"),
    ],
)
def test_the_reason_is_that_which_holds(more: dict[str, Any], short: str, advice: str) -> None:
    found = predict("gpt2", "h100", **{"batch": 8, **more})
    (row,) = found.rows()
    assert not row["fits"]
    assert row["why_not"] == short
    assert advice in found.answer()
    assert ("fits on none" in found.answer()) == (short == "does not fit")


def test_what_is_rented_in_whole_machines_may_be_too_much() -> None:
    found = predict("gpt2", "a100-80,l4", batch=8, gpus=4, limits={"a100-80": 4})
    whole, single = found.refusals
    assert whole is not None
    assert whole.short == "limit of 4 GPUs, 8 needed"
    assert single is None
    assert found.answer().startswith("Rent 4 × l4")


def test_without_a_group_that_shares_tensors_memory_is_the_reason() -> None:
    assert why_not([], Work(), RequestedParallelism()) is OF_MEMORY
    forecasts = predict("gpt2", "l4", batch=100_000).forecasts
    assert why_not(forecasts, Work(), RequestedParallelism()) is OF_MEMORY
