"""Registration of staging instances: their data model, and a tiny example."""

from ..common.kind import InstanceKind
from .generate import generate_staging
from .instance import StagingInstance, with_seconds

STAGING = InstanceKind(
    model=StagingInstance,
    lists=("types", "layers"),
    tiny=lambda: generate_staging(3, 2, "tight", seed=1),
    resolved=lambda data, source, _: with_seconds(data, source),
)
