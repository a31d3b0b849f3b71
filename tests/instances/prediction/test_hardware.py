"""GPUs: the bundled data sheets, and what is said of those that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.hardware import gpu_named, known_gpus, read_gpus


def test_every_gpu_says_where_its_figures_come_from() -> None:
    for gpu in known_gpus().values():
        assert gpu.source
        assert gpu.peak("fp32") >= 1e12
        assert gpu.memory_gb >= 8


def test_names_have_aliases_and_any_case() -> None:
    assert gpu_named("A100").name == "a100-40"
    assert gpu_named("h100").peak("bf16") == pytest.approx(989.5e12)
    assert gpu_named("GH-96").name == "gh200"
    assert gpu_named("rtx-pro-server-6000").name == "rtx-pro-6000"


def test_the_precision_that_people_train_in() -> None:
    """Pascal multiplies in half precision, but not on tensor cores; Volta and Turing have no bf16."""
    taken = {name: gpu.training_precision for name, gpu in known_gpus().items()}
    single, half = ("k80", "p4", "p100"), ("t4", "v100", "v100-sxm2", "rtx-2080-ti", "titan-rtx")
    for name, precision in taken.items():
        assert precision == ("fp32" if name in single else "fp16" if name in half else "bf16"), name


def test_unknown_gpus_and_missing_peaks_are_one_line() -> None:
    with pytest.raises(OptionError, match=r"GPU 'h1000': unknown; did you mean 'h100'\? known are k80"):
        gpu_named("h1000")
    with pytest.raises(OptionError, match="t4: has no peak for bf16; it has fp32, fp16"):
        gpu_named("t4").peak("bf16")
    with pytest.raises(OptionError, match="precision 'int4': unknown"):
        gpu_named("t4").peak("int4")


def test_a_list_of_ones_own_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "gpus: [{name: x, peak_tflops: {fp33: 1}, bandwidth_gb_per_s: 1, memory_gb: 1, source: me}]"
    )
    with pytest.raises(InstanceError, match="'fp33' is no precision"):
        read_gpus(file)
