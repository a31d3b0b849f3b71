"""The frontier of a staging instance, cost against throughput: its verification and its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...formulations.common.tolerance import within
from ...formulations.staging.graphs.formulation import formulation_of
from ...formulations.staging.plan import Corner, Stage
from ...instances.staging.instance import StagingInstance
from ...solvers.staging.frontier import describe
from ...solvers.staging.frontier_result import Frontier, FrontierPoint
from ..kind import Sentences
from ..output.text import TextColumn, figure, percent
from ..verification.findings import Findings
from ..verification.frontier_check import FrontierCheck, altered, order_faults
from ..verification.infeasibility import check_infeasible


class StagingFrontierCheck(FrontierCheck):
    """The check of a staging frontier: every plan, every figure, and the error that they prove."""

    default_error = 1e-4
    instance: StagingInstance
    frontier: Frontier

    def __init__(self, instance: StagingInstance, frontier: Frontier) -> None:
        super().__init__(instance, frontier)
        self.formulation = formulation_of(instance)
        self.most_usd = math.inf if frontier.most_usd is None else frontier.most_usd
        self.most = "" if frontier.most_usd is None else f" of at most {frontier.most_usd:g} USD"
        limit = math.inf if instance.cost_limit_usd is None else instance.cost_limit_usd
        self.narrower = self.most if self.most_usd < limit else ""

    def check_infeasible(self, found: Findings) -> None:
        """Check that no plan is within the cost that was asked for, and the reasons given."""
        formulation, frontier = self.formulation, self.frontier

        def counts(plan: Sequence[Stage]) -> bool:
            return within(describe(formulation, tuple(plan)).cost_usd, self.most_usd)

        proven = formulation.proves_none(frontier.most_usd, frontier.certificate)
        words = "the prices of the certificate prove that there is no plan" if proven else None
        check_infeasible(found, formulation, words, frontier.diagnosis, frontier.versions, counts)

    def faults(self) -> Iterator[str]:
        """Yield what is wrong beside the head."""
        formulation, frontier = self.formulation, self.frontier
        malformed = formulation.certificate_fault({"intervals": frontier.certificate})
        if malformed is not None:
            yield f"certificate: {malformed}"
        broken = False
        for index, point in enumerate(frontier.points):
            for violation in formulation.violations(point.plan):
                broken = True
                yield f"points[{index}]: broken constraint: {violation}"
        if broken:
            return
        for index, point in enumerate(frontier.points):
            derived = describe(formulation, point.plan)
            for field in sorted(set(FrontierPoint.model_fields) - {"plan"}):
                yield from altered(f"points[{index}].{field}", getattr(point, field), getattr(derived, field))
        # The stored figures were compared with the plans above.
        corners = [Corner(point.stage_time_s, point.cost_usd) for point in frontier.points]
        if not all(within(corner.cost_usd, self.most_usd) for corner in corners):
            yield f"points: there are plans dearer than most_usd, {self.most_usd:g}"
        yield from order_faults(frontier)
        proven = None
        if corners:
            proven = formulation.certified_error(
                corners, frontier.error, frontier.most_usd, frontier.certificate
            )
        stored = frontier.certified_error
        if stored is not None and (proven is None or proven > stored * (1 + 1e-9)):
            yield f"certified_error is stored as {stored}; what the certificate proves is {proven}"


def columns(frontier: Frontier) -> list[TextColumn[FrontierPoint]]:
    """Return the columns of the table for people."""
    del frontier
    return [
        ("samples/s", True, lambda p: figure(p.throughput_samples_per_s, 6)),
        ("USD", True, lambda p: figure(p.cost_usd, 6)),
        ("hours", True, lambda p: figure(p.time_s / 3600, 5)),
        ("USD/h", True, lambda p: figure(p.rate_usd_per_hour, 6)),
        ("stages: units of each type, in order", False, _stages),
    ]


def _stages(point: FrontierPoint) -> str:
    text = " → ".join(f"{stage.units} {stage.type}" for stage in point.plan[:6])
    return text + (f" … ({len(point.plan)} stages)" if len(point.plan) > 6 else "")


def sentences(frontier: Frontier) -> Sentences:
    """Return what the lines below the table say."""
    most = "" if frontier.most_usd is None else f" of at most {figure(frontier.most_usd)} USD"
    return Sentences(
        none="no plan exists",
        uncertified=f"not certified: that no plan{most} is faster than the fastest point",
        certified=f"certified: every plan{most} is matched by a point as fast that costs at most "
        f"{percent(frontier.certified_error)} more",
    )
