"""Measured replicas: their rates, GPUs and prices, what limits exclude, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sample_documents import is_kept, refused, said

import clusterplan
from clusterplan.instances.importers.mix.serving import import_serving
from clusterplan.instances.mix.instance import MixInstance

COLUMNS = (
    "backend,backend_version,model_path,system,precision,isl,osl,batch_size,tp_size,pp_size,"
    "attention_dp_size,moe_tp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms\n"
)
POINTS = (
    "vllm,1,m,h100_sxm,fp8,100,10,8,2,1,,2,1,500,150",  # 8 requests in 2 s
    "vllm,1,m,h100_sxm,fp8,100,10,8,2,1,,2,1,500,50",  # again, faster
    "vllm,1,m,h100_sxm,fp8,200,10,8,2,1,1,2,1,1000,100",
    "sgl,,m,b200_sxm,fp8,100,10,4,1,1,4,1,4,500,50",  # 16 requests in 1 s on 4 GPUs
    "sgl,,m,b200_sxm,fp8,100,10,4,64,1,1,8,8,500,50",
    "sgl,,m,h200_sxm,fp8,100,10,8,1,1,1,1,1,9000,50",
    "sgl,,m,gb200,fp8,100,10,8,1,1,1,1,1,500,50",
    "sgl,,m,h200_sxm,fp8,300,10,8,1,1,1,1,1,500,50",
    "sgl,,m,h200_sxm,fp4,100,10,8,1,1,1,1,1,500,50",
    "sgl,,n,h200_sxm,fp8,100,10,8,1,1,1,1,1,500,50",
)
HEAD = "name,input_tokens,output_tokens,requests_per_s\n"
WORK = f"{HEAD}chat,100,10,5\n,200,10,1\nlong,999,10,1\n"
LIMITS = {"model": "m", "precision": "fp8", "ttft_ms": 5000}


def serving(folder: Path, table: str = "", work: str = WORK, **options: Any) -> MixInstance:
    """Return what becomes of a table, by default of operating points of one model."""
    (folder / "t.csv").write_text(table or COLUMNS + "\n".join(POINTS) + "\n")
    (folder / "w.csv").write_text(work)
    return import_serving(folder / "t.csv", folder / "w.csv", **options)


def test_rates_and_gpus_of_a_replica(tmp_path: Path) -> None:
    """Requests at a time over the latency; each attention rank has a batch of its own, and GPUs."""
    found = serving(tmp_path, **LIMITS)
    assert {one.name: (one.devices, one.requests_per_s) for one in found.configurations} == {
        "h100 vllm 1 tp2 batch 8": (2, {"chat": 4, "200-in-10-out": 4}),
        "b200 sgl tp1 dp4 ep4 batch 4": (4, {"chat": 16}),
    }
    assert [one.name for one in found.types] == ["chat", "200-in-10-out", "long"]
    assert {one.name: one.hardware for one in found.hardware} == {
        "b200": "p6-b200.48xlarge",
        "h100": "p5.48xlarge",
    }
    assert [one.price_usd_per_hour for one in found.hardware] == [14.2416, 6.88]
    assert is_kept(found)


@pytest.mark.parametrize(
    "text",
    [
        "The operating points are of m fp8.",
        "Points not used, of other models or precisions: 2.",
        "Points not used, with other input/output tokens than the requests have: 1, with 300/10.",
        "Points left out, with experts divided both ways, so that their GPUs are uncertain: 1.",
        "Points left out, on GPUs without a price; --price gives one: 1.",
        "Points measured again, of which the slowest measurement counts: 1.",
        "Points left out, beyond the limits: 1.",
        "Limit on the measured time to the first token: 5000 ms.",
        "No replica serves long.",
    ],
)
def test_what_is_left_out_is_said(tmp_path: Path, text: str) -> None:
    """Of every point that is not used, and of the types that nobody serves."""
    assert text in serving(tmp_path, **LIMITS).assumptions


def test_prices_and_stock_are_options(tmp_path: Path) -> None:
    """A GPU that no machine of the catalogue has is there with a price."""
    found = serving(tmp_path, **LIMITS, price={"gb200": 20, "h100": 2}, stock={"h100": 64})
    rows = {one.name: (one.hardware, one.price_usd_per_hour, one.limit) for one in found.hardware}
    assert rows["gb200"] == (None, 20, None)
    assert rows["h100"] == (None, 2, 64)
    assert "without a price" not in said(found)
    assert "Prices of b200 are those of the machine" in said(found)
    given = serving(tmp_path, **LIMITS, price={"b200": 3, "h100": 2})
    assert "Prices of" not in said(given)


REPLICAS = "name,gpu,devices,type,requests_per_s\nx,h100,4,chat,3\nx,h100,4,long,2\ny,mine,1,chat,1\n"


def test_replicas_of_a_user(tmp_path: Path) -> None:
    """One row for each type that a replica serves; those of types that are not requested are counted."""
    found = serving(tmp_path, f"{REPLICAS}z,no,1,other,1\nx,h100,4,other,9\n", price={"mine": 1})
    assert {one.name: (one.hardware, one.devices, one.requests_per_s) for one in found.configurations} == {
        "x": ("h100", 4, {"chat": 3, "long": 2}),
        "y": ("mine", 1, {"chat": 1}),
    }
    assert "No replica serves 200-in-10-out." in found.assumptions
    assert "Rows not used, of types that w.csv does not have: 2." in found.assumptions


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ("", {"model": "m"}, "options: model and precision: several fit, and an instance has one; give"),
        ("", {"model": "m"}, "give model and precision of one: m fp4; m fp8"),
        (
            "",
            {"model": "x"},
            "no point of the table has them; give model and precision of one: m fp4; m fp8; n fp8",
        ),
        (
            "",
            {**LIMITS, "tpot_ms": 1},
            "t.csv: has no point for these requests and limits; change the tokens of the requests, or the "
            "limits. Points not used, of other models or precisions: 2. Points",
        ),
        (
            "",
            {**LIMITS, "work": f"{HEAD}chat,1,2,3\n"},
            "tokens than the requests have: 8, with 100/10, 200/10, 300/10.",
        ),
        (
            "",
            {**LIMITS, "work": f"{WORK}chat,1,2,3\n"},
            "w.csv: rows[3].name: 'chat' is already used by rows[0]",
        ),
        (
            "",
            {**LIMITS, "stock": {"h10": 1}},
            "price or stock.h10: unknown GPU 'h10'; the GPUs are: b200, gb200, h100",
        ),
        (REPLICAS, {}, "hardware[1].price_usd_per_hour: of 'mine' is missing"),
        (
            REPLICAS,
            {"price": {"mine": 1}, "ttft_ms": 5},
            "options: ttft_ms: is for operating points; the table",
        ),
        (f"{REPLICAS}x,h100,4,chat,9\n", {}, "t.csv: line 5: has 'x' with type 'chat' again"),
        (f"{REPLICAS}x,h100,2,chat,9\n", {"price": {"mine": 1}}, "name: 'x' is already used"),
        (
            REPLICAS,
            {"work": f"{HEAD}rl,1,2,3\n"},
            "t.csv: has no row of a type of",
        ),
        (REPLICAS, {"work": f"{HEAD}rl,1,2,3\n"}, "w.csv; it has rows of: chat, long"),
        ("name,gpu\nx,y\n", {}, "t.csv: line 1: has no column devices, type, requests_per_s"),
    ],
)
def test_what_is_refused(tmp_path: Path, table: str, options: dict[str, Any], says: str) -> None:
    """Is one fault, with its place."""
    with refused(says):
        serving(tmp_path, table, **options)


@pytest.mark.parametrize("model", ["openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1"])
def test_measured_models_are_served(shared_data: Path, tmp_path: Path, model: str) -> None:
    """Two types of requests at least cost, with proof."""
    (tmp_path / "w.csv").write_text("input_tokens,output_tokens,requests_per_s\n1024,1024,9\n8192,1024,4\n")
    found = import_serving(
        shared_data / "aiconfigurator" / "measured_serving.csv.gz",
        tmp_path / "w.csv",
        model=model,
        precision="fp4",
        ttft_ms=4000,
        tpot_ms=40,
    )
    assert len(found.configurations) > 20
    result = clusterplan.solve(found)
    assert result.status == "optimal"
    assert clusterplan.verify(found, result).ok
