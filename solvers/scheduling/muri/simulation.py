"""The semantics of Muri's simulator: its published averages to the printed digit.

At every event each job that runs loses its overhead, restarted or not, and the predicted ends ignore it, so a
job keeps its GPUs for longer than it would have to. A plan is feasible all the same.
"""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Floats
from ....instances.common.errors import OptionError
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import Schedule
from .kernels import least_attained, shortest_first

GPU = "gpu"
LIMITS = (3250.0, 7200.0)
"""Attained GPU-seconds at which a job of Tiresias-L falls to the next queue."""
OVERHEAD_S = {
    1: {"vgg16": 7, "vgg19": 7, "resnet18": 4, "shufflenet_v2_x1_0": 4, "a2c": 38, "dqn": 5},
    2: {"vgg16": 7, "vgg19": 7, "resnet18": 5, "shufflenet_v2_x1_0": 4, "a2c": 39, "dqn": 5},
    4: {"vgg16": 8, "vgg19": 8, "resnet18": 5, "shufflenet_v2_x1_0": 5, "a2c": 39, "dqn": 6},
    8: {"vgg16": 9, "vgg19": 9, "resnet18": 7, "shufflenet_v2_x1_0": 5, "a2c": 46, "dqn": 6},
    16: {"vgg16": 9, "vgg19": 10, "resnet18": 7, "shufflenet_v2_x1_0": 7, "a2c": 46, "dqn": 8},
    32: {"vgg16": 10, "vgg19": 10, "resnet18": 7, "shufflenet_v2_x1_0": 8, "a2c": 46, "dqn": 8},
}
"""GPUs → model → seconds lost at each event, as the simulator has them (Rivendile/Muri, commit 4e69a78)."""
OTHER_OVERHEAD_S = 10.0
"""Of all other models, bert and gpt2 among them."""


def simulate(instance: SchedulingInstance, policy: str) -> Schedule:
    """Return the schedule of `srtf`, `srsf` or `las` as the simulator makes it.

    Raises
    ------
    OptionError
        If the instance has anything that the simulator does not know.
    """
    _refuse(instance)
    table = instance.table()
    order = np.argsort(table.arrival_s, kind="stable")
    gpus = np.rint(table.total_demand[order, table.resources.index(GPU)]).astype(np.int64)
    step = np.where(np.isnan(table.step_s), 1.0, table.step_s)[order]
    steps = table.duration_s[order] / step
    whole = np.rint(steps)
    steps = np.where(np.abs(steps - whole) <= 1e-9 * steps, whole, steps)
    arrival = table.arrival_s[order]
    overhead = _overheads(instance)[order]
    if policy == "las":
        pool = int(instance.pool[GPU])
        segments = least_attained(arrival, steps, step, gpus, overhead, np.array(LIMITS), pool)
    else:
        servers = sum(server.count for server in instance.servers) or 1
        size = int(instance.pool[GPU]) // servers
        segments = shortest_first(arrival, steps, step, gpus, overhead, policy == "srsf", servers, size)
    job, start, end = segments.T
    longer = end > start  # a job may start and be stopped within one moment
    return Schedule(order[job.astype(np.int64)][longer], start[longer], end[longer])


def _refuse(instance: SchedulingInstance) -> None:
    sizes = {server.capacity.get(GPU, 0.0) for server in instance.servers}
    table = instance.table()
    demand = table.total_demand
    wrong = {
        "one resource, gpu, in whole numbers": list(instance.pool) != [GPU] or (demand % 1 != 0).any(),
        "servers that are all alike": len(sizes) > 1,
        "preemption: free": instance.preemption != "free",
        "no lease": instance.lease_s > 0,
        "no speed_by_servers": table.spreading is not None and (table.spreading.profile >= 0).any(),
        "no events": len(instance.events) > 0,
    }
    for needed, is_wrong in wrong.items():
        if is_wrong:
            raise OptionError(f"semantics 'muri' needs {needed}; leave it out")


def _overheads(instance: SchedulingInstance) -> Floats:
    """Return the seconds that each job loses at every event, shape (J,)."""
    table = instance.table()
    gpus = table.total_demand[:, table.resources.index(GPU)]
    of_gpus = [OVERHEAD_S.get(round(g), {}) for g in gpus.tolist()]
    models = [table.models[code] if code >= 0 else "" for code in table.model.tolist()]
    found = [known.get(m, OTHER_OVERHEAD_S) for known, m in zip(of_gpus, models, strict=True)]
    return np.array(found, dtype=float)
