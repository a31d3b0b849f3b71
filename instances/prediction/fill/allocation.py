"""An allocation instance from forecasts: one job that may run on any of the hardware, on how many GPUs?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...allocation.instance import AllocationInstance
from ...common.errors import OptionError
from ...common.faults import validated
from ..communication.coefficients import ring_theta
from ..communication.links import LINK_ENDS
from ..models.description import ModelDescription
from .forecast import Forecast
from .sentences import of_forecasts, of_work
from .work import HOUR_S, Work

GPUS = 8
"""GPUs of hardware whose limit nobody gave."""


def allocation_of(
    model: ModelDescription, forecasts: Sequence[Forecast], work: Work, said: Sequence[str] = ()
) -> AllocationInstance:
    """Return the allocation instance of one job.

    Parameters
    ----------
    said
        Further assumptions.

    Raises
    ------
    OptionError
        If the model fits on none of the hardware.
    InstanceError
        If what results is no valid instance.
    """
    usable = [one for one in forecasts if one.fits]
    if not usable:
        least = forecasts[0].memory_bytes / 1e9
        raise OptionError(
            f"{model.name}: needs {least:.3g} GB on one GPU, more than any hardware has; give a smaller "
            "--batch, larger GPUs, or --kind staging, which divides the layers"
        )
    batch = usable[0].batch * work.microbatches
    left_out = [one.rented.name for one in forecasts if not one.fits]
    resources = {one.rented.name: one.rented.limit or GPUS for one in usable}
    unlimited = [one.rented.name for one in usable if one.rented.limit is None]
    job: dict[str, Any] = {
        "name": model.name[:200],
        "remaining_steps": work.total / batch,
        "deadline_s": None if work.within_h is None else work.within_h * HOUR_S,
        "variants": [
            _variant(one, batch, min(resources[one.rented.name], work.microbatches)) for one in usable
        ],
    }
    document = {
        "name": f"predicted-{model.name}"[:200],
        "source": "predicted from the model's description and data sheets",
        "assumptions": [
            *model.assumptions,
            *said,
            *of_forecasts(usable),
            *of_work(work),
            f"A step is one global batch of {batch} samples, which GPUs go through in batches of "
            f"{usable[0].batch}; so at most {work.microbatches} GPUs help.",
            "Gradients are added up in a ring over the network, and do not hide behind computation.",
            *(f"{name} has too little memory for the model and is left out." for name in left_out),
            *(f"There are {GPUS} {name}, for no other number was given." for name in unlimited),
        ],
        "uncertainty": [each for index, one in enumerate(usable) for each in _intervals(index, one)],
        "resources": resources,
        "prices_usd_per_hour": {
            one.rented.name: one.rented.price_usd_per_hour
            for one in usable
            if one.rented.price_usd_per_hour is not None
        },
        "jobs": [job],
    }
    return validated(AllocationInstance, document, f"prediction of {model.name}")


def _variant(one: Forecast, batch: int, most: int) -> dict[str, Any]:
    size = sum(layer.weight_bytes for layer in one.layers)
    # Each GPU goes through its share in batches, so that a sample takes what it takes in one.
    per_sample = one.step.seconds / one.batch
    return {
        "name": one.rented.name,
        "worker_demand": {one.rented.name: 1},
        "workers": {"min": 1, "max": most},
        "speed": {
            "model": "ring_allreduce",
            "theta": list(ring_theta(one.rented.network, size, per_sample)),
            "batch": batch,
        },
    }


def _intervals(index: int, one: Forecast) -> list[dict[str, Any]]:
    low, high = one.factors
    least, most = LINK_ENDS
    compute = {"inside": one.step.inside, "basis": one.step.basis, "low": low, "high": high}
    link = {"inside": False, "basis": "bandwidth as it is sold", "low": least, "high": most}
    theta = f"/jobs/0/variants/{index}/speed/theta"
    return [{"figure": f"{theta}/{k}", **(compute if k < 2 else link)} for k in range(4)]
