"""What `make fuzz` once found wrong, made small, stays right: every file in tests/regressions."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz.cases import kept, retried

CASES = dict(kept())


@pytest.mark.parametrize("name", CASES)
def test_what_was_wrong_stays_right(name: str) -> None:
    """Nothing is found any more where something was."""
    case: dict[str, Any] = CASES[name]
    assert retried(case) == [], case["what"]
