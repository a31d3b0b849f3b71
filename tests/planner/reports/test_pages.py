"""Reports in a browser: they draw, sort, toggle and print, without a mouse, a network or foreign scripts."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sample_pages import HOSTILE, all_pages, sample_comparison

import clusterplan
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.output import write_file as write_page
from clusterplan.planner.reports.comparison_page import comparison_page
from clusterplan.planner.reports.comparison_page import write as write_comparison
from clusterplan.planner.reports.result_page import plan_page
from clusterplan.planner.reports.result_page import write as write_frontier

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCHEMES = ("file:", "data:", "blob:")
PAGES = (
    "frontier",
    "clusters",
    "what-if",
    "comparison",
    "plan-staging",
    "plan-allocation",
    "plan-consolidation",
    "plan-requests",
    "plan-sharing",
    "loads",
    "none-staging",
    "none-allocation",
    "none-consolidation",
)
ONE_OF_EACH = ("frontier", "comparison", "plan-staging", "none-staging")
Opener = Callable[..., Any]


def missing(what: str) -> None:
    """Skip, unless somebody says that there must be a browser."""
    if os.environ.get("CLUSTERPLAN_NEEDS_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = os.environ.get("CLUSTERPLAN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("no Chromium: install it, or say where it is in CLUSTERPLAN_CHROMIUM")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    for name, html in all_pages().items():
        write_page(made / f"{name}.html", html)
    return made


@pytest.fixture
def opened(browser: Any, folder: Path) -> Opener:
    """Return a context manager that opens a page and fails on anything that it should not do."""

    @contextmanager
    def open_page(name: str, width: int = 1200, **options: Any) -> Iterator[Any]:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_offline(True)
        page = context.new_page()
        faults: list[str] = []
        page.on("console", lambda said: faults.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.on("request", lambda request: request.url.startswith(SCHEMES) or faults.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        yield page
        assert page.evaluate("window.pwned") is None
        assert faults == []
        context.close()

    return open_page


def point_of(page: Any, plot: str, trace: int, index: int) -> tuple[float, float]:
    """Return where on the screen a point of a plot is."""
    found = page.evaluate(
        """([plot, trace, index]) => {
            const div = document.getElementById(plot), own = div.data[trace];
            const { xaxis, yaxis } = div._fullLayout, box = div.getBoundingClientRect();
            const at = (axis, value) => axis._offset + axis.c2p(axis.d2c(value));
            return [box.x + at(xaxis, own.x[index]), box.y + at(yaxis, own.y[index])];
        }""",
        [plot, trace, index],
    )
    return found[0], found[1]


def hover(page: Any, plot: str, trace: int, index: int) -> str:
    """Return what is shown when one hovers over a point."""
    page.locator(f"#{plot}").scroll_into_view_if_needed()
    x, y = point_of(page, plot, trace, index)
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=3)
    page.wait_for_selector(f"#{plot} .hoverlayer .hovertext")
    return str(page.evaluate(f"document.querySelector('#{plot} .hoverlayer').textContent"))


def until(page: Any, expression: str) -> None:
    """Wait for something to hold; Playwright's own wait is one of the scripts that the pages forbid."""
    end = time.monotonic() + 10
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


PAPER = """[...document.querySelectorAll(".plot .main-svg:first-child")].map(
    svg => getComputedStyle(svg).backgroundColor)"""
WHITE, DARK = "rgb(255, 255, 255)", "rgb(22, 26, 33)"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ONE_OF_EACH else [pytest.mark.slow]) for name in PAGES]
)
def test_every_page_is_drawn_on_any_medium(opened: Opener, name: str) -> None:
    with opened(name) as page:
        plots = page.locator(".plot").count()
        printing = "document.documentElement.hasAttribute('data-print')"
        assert page.locator("main").is_visible()
        assert page.evaluate(PAPER) == [WHITE] * plots

        page.emulate_media(color_scheme="dark")
        until(page, f"{PAPER}.every(colour => colour === '{DARK}')")

        page.emulate_media(media="print", color_scheme="dark")
        until(page, printing)
        assert page.evaluate(PAPER) == [WHITE] * plots
        assert not any(control.is_visible() for control in page.locator(".controls").all())
        assert all(item.is_visible() for item in page.locator("#about li").all())
        widths = page.evaluate(
            "[...document.querySelectorAll('.plot .main-svg')].map(svg => svg.clientWidth)"
        )
        assert max(widths, default=0) <= 700
        page.emulate_media(media="screen", color_scheme="dark")
        until(page, f"!{printing}")
        assert not any(item.is_visible() for item in page.locator("#about details li").all())
        assert page.pdf(format="A4").startswith(b"%PDF")

        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 800})
        until(page, "[...document.querySelectorAll('.plot .main-svg')].every(svg => svg.clientWidth <= 360)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(PAPER) == [WHITE] * plots


@pytest.mark.slow
def test_page_that_opens_in_the_dark(opened: Opener) -> None:
    with opened("frontier", width=360, color_scheme="dark") as page:
        assert page.evaluate(PAPER) == [DARK]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_hover_shows_names_as_text(opened: Opener) -> None:
    with opened("frontier") as page:
        words = hover(page, "frontier", 0, 0)
        assert "101.508 samples/s" in words
        assert "<b>fett</b>" in words
    with opened("clusters") as page:
        line = page.evaluate("report.data.choice.line")
        words = hover(page, "frontier", line, 0)
        assert "48.96 USD/h" in words
        assert "<b>fett</b>" in words
    with opened("comparison") as page:
        words = hover(page, "gaps", 1, 2)
        assert "gap to the best bound: 4.01 %" in words
        assert "<img src=x" in words
        assert page.locator(".plot img, .plot a:not(.modebar-btn)").count() == 0
    with opened("plan-allocation") as page:
        trace = page.evaluate(
            "report.figures.times.data.findIndex(t => t.customdata.some(c => c[0].includes('fett')))"
        )
        at = page.evaluate(
            f"report.figures.times.data[{trace}].customdata.findIndex(c => c[0].includes('fett'))"
        )
        assert "<b>fett</b>" in hover(page, "times", trace, at)


def test_tables_of_many_columns_are_seen_whole_on_a_small_screen(opened: Opener) -> None:
    with opened("comparison") as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        widths = "[...document.querySelectorAll('.scroll')].map((e) => e.scrollWidth - e.clientWidth)"
        assert set(page.evaluate(widths)) == {0}


@pytest.mark.slow
def test_other_methods_have_names(opened: Opener) -> None:
    with opened("frontier") as page:
        names = page.locator("#frontier .textpoint").all_text_contents()
        assert [name.strip() for name in names] == ["greedy"]


def test_another_point_by_keyboard(opened: Opener) -> None:
    with opened("frontier") as page:
        slider = page.locator("#chosen")
        bar = page.locator("#chain")
        before, words = bar.inner_html(), page.locator("#chosen-words").inner_text()
        assert page.locator("#points tr[aria-current=true] th").inner_text() == "11"
        slider.focus()
        assert slider.input_value() == "0"  # the cheapest is on the left, as in the plot
        page.keyboard.press("ArrowRight")
        assert page.locator("#chosen-words").inner_text() != words
        assert slider.get_attribute("aria-valuetext").startswith("Point 10 of 11: 62.701 samples/s")
        assert bar.inner_html() != before
        assert page.locator("#points tr[aria-current=true] th").inner_text() == "10"
        ring = page.evaluate("report.data.choice.ring")
        assert page.evaluate(f"document.getElementById('frontier').data[{ring}].x[0]") == pytest.approx(
            62.701, abs=1e-3
        )
        page.get_by_role("button", name="faster →").press("Enter")
        assert slider.input_value() == "2"
        page.get_by_role("button", name="today’s choice").press("Space")
        assert bar.inner_html() == before
        stages = page.locator("#stages tbody tr").count()
        assert stages == page.locator("#chain .layers > span").count()


@pytest.mark.slow
def test_another_point_by_mouse(opened: Opener) -> None:
    with opened("frontier") as page:
        hover(page, "frontier", 0, 2)
        page.mouse.down()
        page.mouse.up()
        until(page, "document.getElementById('chosen').value === '8'")
        page.locator("#points tbody tr").nth(4).click()
        assert page.locator("#chosen").input_value() == "6"


@pytest.mark.slow
def test_bar_is_as_wide_as_the_layers(opened: Opener) -> None:
    with opened("frontier") as page:
        wide = page.locator("#chain .layers > span").evaluate_all(
            "list => list.map(s => s.getBoundingClientRect().width)"
        )
        stages = page.evaluate("report.shown.stages.map(([first, last]) => last - first + 1)")
        assert sum(stages) == 26
        for width, layers in zip(wide, stages, strict=True):
            assert width == pytest.approx(sum(wide) * layers / 26, abs=2)


@pytest.mark.slow
def test_chosen_cluster(opened: Opener) -> None:
    with opened("clusters") as page:
        first = page.locator("#cluster tbody").inner_text()
        page.locator("#chosen").focus()
        page.keyboard.press("End")
        assert page.locator("#cluster tbody").inner_text() != first
        assert page.locator("#is-rate").inner_text() == "48.96 USD/h"
        assert HOSTILE in page.locator("#cluster tbody th").all_inner_texts()


def shown_column(page: Any, table: str, column: int) -> list[str]:
    return list(
        page.evaluate(
            "([id, n]) => [...document.querySelectorAll(`#${id} tbody tr`)].map(r => r.cells[n].textContent)",
            [table, column],
        )
    )


@pytest.mark.slow
def test_sorting_is_numeric_with_unknown_ones_last(opened: Opener) -> None:
    with opened("comparison") as page:
        headers = page.locator("#every thead th")
        at = next(
            i for i, text in enumerate(headers.all_inner_texts()) if text.startswith("gap to best bound")
        )
        assert headers.nth(at).get_attribute("aria-sort") == "none"
        button = headers.nth(at).locator("button")
        button.focus()
        page.keyboard.press("Enter")
        assert headers.nth(at).get_attribute("aria-sort") == "ascending"
        rising = [text for text in shown_column(page, "every", at) if text != "–"]
        figures = [float(text.split()[0]) for text in rising]
        assert figures == sorted(figures)
        assert max(figures) > 9 > min(figures)
        assert shown_column(page, "every", at)[len(rising) :] == ["–"] * (30 - len(rising))
        button.click()
        assert headers.nth(at).get_attribute("aria-sort") == "descending"
        falling = shown_column(page, "every", at)
        assert falling[: len(rising)] == sorted(rising, key=lambda text: -float(text.split()[0]))
        assert falling[-1] == "–"
        headers.nth(1).locator("button").click()
        assert headers.nth(at).get_attribute("aria-sort") == "none"
        assert headers.nth(1).get_attribute("aria-sort") == "ascending"


@pytest.mark.slow
def test_filter_by_words(opened: Opener) -> None:
    with opened("comparison") as page:
        page.get_by_label("Show rows with these words").fill("failed why")
        assert page.locator("#every tbody tr:visible").count() == 5
        assert page.locator("output[for=every-filter]").inner_text() == "5 of 30 rows"


@pytest.mark.slow
def test_legend_by_click_and_keyboard(opened: Opener) -> None:
    with opened("comparison") as page:
        box = page.locator("input[data-toggle='1']")
        trace = "document.getElementById('gaps').data[1].visible"
        points = page.locator("#gaps .scatterlayer .trace")
        assert points.count() == 3
        box.click()
        assert page.evaluate(trace) is False
        assert page.evaluate("document.getElementById('profile').data[1].visible") is False
        assert points.count() == 2
        box.focus()
        page.keyboard.press("Space")
        assert page.evaluate(trace) is True
        assert points.count() == 3


def test_everything_is_reached_by_the_tab_key(opened: Opener) -> None:
    with opened("frontier") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert page.evaluate("document.activeElement === document.body") or outline != "none"
        assert {"chosen", "BUTTON", "A", "SUMMARY"} <= seen


@pytest.mark.slow
def test_large_pages_open_in_seconds(opened: Opener, folder: Path) -> None:
    write_page(folder / "wide.html", comparison_page(sample_comparison(834)))
    instance = generate_consolidation(10_000, 9_000, seed=3)
    write_page(folder / "cluster.html", plan_page(instance, clusterplan.solve(instance)))
    for name in ("wide", "cluster"):
        with opened(name) as page:
            took = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
            assert took < 15_000
    with opened("wide") as page:
        page.locator("#every thead button").nth(9).click()
        assert page.locator("#every thead th[aria-sort=ascending]").count() == 1


@pytest.mark.slow
def test_chains_of_many_layers_stay_inside(opened: Opener, folder: Path) -> None:
    instance = generate_staging(300, 8, "tight", seed=1)
    options = clusterplan.SolveOptions(time_limit_s=3)
    result = clusterplan.solve(instance, options=options)
    assert result.plan is not None
    write_page(folder / "chain.html", plan_page(instance, result))
    for width in (360, 1200):
        with opened("chain", width=width) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("#chain .layers > span").count() == len(result.plan)
            last = page.locator("#chain .ticks span").last.inner_text()
            assert re.fullmatch("299", last)


@pytest.mark.slow
def test_pages_are_drawn_as_commands_write_them(opened: Opener, folder: Path) -> None:
    """The content policy counts every character, so what writes a page must not change any."""
    instance = clusterplan.load("example:heterps-ctr")
    write_frontier(instance, clusterplan.pareto(instance, error=0.3), folder / "written")
    write_comparison(sample_comparison(6), folder / "written")
    for name in ("written/frontier", "written/comparison"):
        with opened(name) as page:
            plots = page.locator(".plot").count()
            assert plots
            assert page.evaluate(PAPER) == [WHITE] * plots
