"""The HTML page, in a real browser: what it shows equals the JSON, on a phone, in the dark and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleargrad.doctor.lesson import Lesson
from cleargrad.doctor.reports import as_html, as_json, as_lesson
from tests.doctor import browser
from tests.doctor.reports.runs import BUG, STEP_LINE, healthy, watch_script

needs_browser = pytest.mark.skipif(
    browser.find() is None,
    reason="no Chromium is installed (on Debian: apt-get install chromium-headless-shell)",
)
pytestmark = needs_browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.Browser(str(browser.find())) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The page of a run without zero_grad, and the same run as JSON."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        session = watch_script(folder, BUG)
        page = folder / "report.html"
        page.write_text(as_html.write(session), encoding="utf-8")
        return page, json.loads(as_json.write(session))


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lesson]:
    folder = tmp_path_factory.mktemp("lesson")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        watched = Lesson(engine="cleargrad")
        watch_script(folder, healthy(3, parts=2), session=watched)
        page = folder / "lesson.html"
        page.write_text(as_lesson.write(watched), encoding="utf-8")
        return page, watched


def texts(chromium: browser.Browser, selector: str) -> list[str]:
    return chromium.evaluate(f"[...document.querySelectorAll({selector!r})].map(x => x.textContent.trim())")


def opened(chromium: browser.Browser, page: Path, width: int = 1100, scheme: str = "light") -> None:
    chromium.size(width, 800)
    chromium.colours(scheme)
    chromium.open(page)


def test_it_loads_alone_and_without_a_complaint(chromium: browser.Browser, report: Any, lesson: Any) -> None:
    for page in (report[0], lesson[0]):
        opened(chromium, page)
        assert chromium.complaints() == []
        assert chromium.requests() == [page.as_uri()]


def test_it_shows_the_finding(chromium: browser.Browser, report: Any) -> None:
    page, data = report
    opened(chromium, page)
    (finding,) = data["findings"]
    assert texts(chromium, ".finding .rule") == [finding["rule"]]
    assert texts(chromium, ".finding .message") == [finding["message"]]
    assert texts(chromium, ".finding .fix") == [f"Fix {finding['fix']}"]
    shown = texts(chromium, ".finding > ul li")
    assert shown == [
        *finding["evidence"],
        f"seen {finding['count']} times, last in step {finding['last_step']}",
    ]
    (marked,) = texts(chromium, ".source .marked")
    assert marked.split() == [str(STEP_LINE), "▶", "optimizer.step()"]


def test_figures_equal_the_json(chromium: browser.Browser, report: Any) -> None:
    page, data = report
    opened(chromium, page)
    assert json.loads(chromium.evaluate("document.getElementById('report').textContent")) == data

    gradients = data["findings"][0]["facts"]["gradients"]
    rows = chromium.evaluate(
        "[...document.querySelectorAll('.compared')].map(t => [...t.tBodies[0].rows].map(r => "
        "[...r.querySelectorAll('.number')].map(c => c.textContent)))"
    )
    assert len(rows) == len(gradients) > 0
    for shown, known in zip(rows, gradients, strict=True):
        pairs = list(zip(known["expected"], known["actual"], strict=True))[: len(shown)]
        assert shown == [[f"{expected:.4g}", f"{actual:.4g}"] for expected, actual in pairs]

    numbers = (
        "[...document.querySelectorAll('.sizes tbody tr')].map("
        "r => [r.cells[0], r.cells[2], r.cells[4]].map(c => c.textContent))"
    )
    assert chromium.evaluate(numbers) == [
        [row["layer"], f"{row['gradient'][-1]:.4g}", f"{row['update'][-1]:.4g}"] for row in data["sizes"]
    ]

    parts = (
        "[...document.querySelectorAll('[data-timeline=bucket]')].map(f => [...f.querySelectorAll('.moment')].map("
        "m => ['.part', '.hatch', '.reused'].map(kind => m.querySelectorAll(kind).length)))"
    )
    assert chromium.evaluate(parts) == [
        [[len(cell["live"]), cell["used"], cell["reused"]] for cell in bucket["moments"]]
        for bucket in data["timeline"]["buckets"]
    ]
    colours = chromium.evaluate(
        "[...document.querySelectorAll('.moment:last-of-type .part')].map(p => getComputedStyle(p).fill)"
    )
    assert len(set(colours)) == len(colours) == 5  # each contribution has a colour of its own


@pytest.mark.parametrize("width", (320, 390, 1400))
@pytest.mark.parametrize("kind", ("report", "lesson"))
def test_every_width_is_readable(
    chromium: browser.Browser, kind: str, width: int, request: pytest.FixtureRequest
) -> None:
    """Nothing but the scrolling boxes is wider than the screen, and no text is tiny."""
    opened(chromium, request.getfixturevalue(kind)[0], width)
    chromium.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    sizes = chromium.evaluate(
        "[...document.querySelectorAll('p, li, td, th, code, summary')]"
        ".map(x => parseFloat(getComputedStyle(x).fontSize))"
    )
    assert min(sizes) >= 11


CONTRAST = """
(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = light(numbers(getComputedStyle(document.body).backgroundColor));
  const names = ['body', '.soft', '.level', '.path', '.fix b', 'summary', 'a', 'h2', 'caption'];
  return names.map(name => {
    const front = light(numbers(getComputedStyle(document.querySelector(name)).color));
    return [name, (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)];
  });
})()
"""


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_contrast(chromium: browser.Browser, report: Any, scheme: str) -> None:
    opened(chromium, report[0], scheme=scheme)
    red, green, blue = chromium.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (red + green + blue > 600) == (scheme == "light")
    for name, ratio in chromium.evaluate(CONTRAST):
        assert ratio >= 4.5, (name, ratio)


def walk(chromium: browser.Browser) -> list[tuple[str, str]]:
    """Tab from the top to the end: tags and accessible names of what has the focus on the way."""
    stops = []
    for _ in range(200):
        chromium.press("Tab")
        tag = chromium.evaluate("document.activeElement.tagName.toLowerCase()")
        if tag == "body":
            return stops
        stops.append((tag, chromium.focused()))
    raise AssertionError("the focus never comes to an end")


@pytest.mark.parametrize("kind", ("report", "lesson"))
def test_the_keyboard_reaches_everything(
    chromium: browser.Browser, kind: str, request: pytest.FixtureRequest
) -> None:
    opened(chromium, request.getfixturevalue(kind)[0])
    stops = walk(chromium)
    assert all(name for _, name in stops), stops
    tags = [tag for tag, _ in stops]
    assert stops[0] == ("a", "Skip to the contents")
    assert tags.count("summary") == chromium.evaluate(
        "[...document.querySelectorAll('summary')]"
        ".filter(s => !s.parentElement.parentElement.closest('details')).length"
    )
    assert tags.count("g") == chromium.evaluate("document.querySelectorAll('[data-timeline]').length")
    assert tags.count("tr") == chromium.evaluate("document.querySelectorAll('.sizes tbody tr').length") > 0


def test_arrows_walk_through_the_buckets(chromium: browser.Browser, report: Any) -> None:
    page, data = report
    opened(chromium, page)
    chromium.evaluate("document.querySelector('[data-timeline=bucket] .moment').focus()")
    readout = "document.querySelector('[data-timeline=bucket] .readout').textContent"
    said = [chromium.evaluate(readout)]
    for _ in data["timeline"]["moments"][1:]:
        chromium.press("ArrowRight")
        said.append(chromium.evaluate(readout))
        assert chromium.focused() == said[-1]
    assert len(set(said)) == len(data["timeline"]["moments"])
    assert said[0] == "Step 1, train.py:10: backward() added a contribution; the bucket holds 1 contribution."
    assert said[-1].endswith("the bucket holds 5 contributions; 4 of them had been used before.")
    chromium.press("Home")
    assert chromium.evaluate(readout) == said[0]
    chromium.press("PageDown")
    assert chromium.evaluate(readout) == said[2]  # the first moment of step 2
    chromium.press("End")
    assert chromium.evaluate(readout) == said[-1]


def test_arrows_walk_through_sizes(chromium: browser.Browser, report: Any) -> None:
    page, data = report
    opened(chromium, page)
    chromium.evaluate("document.querySelector('.sizes tbody tr').focus()")
    chromium.press("Home")
    row = data["sizes"][0]
    first = f"{row['layer']}, step 1: gradient "
    said = chromium.evaluate("document.getElementById('sizes-readout').textContent")
    assert said.startswith(first)
    assert float(said.removeprefix(first).partition(",")[0]) == pytest.approx(row["gradient"][0], rel=1e-3)


def test_the_lesson_draws_the_graph(chromium: browser.Browser, lesson: Any) -> None:
    page, watched = lesson
    opened(chromium, page)
    titles = texts(chromium, ".graph .moment > text:not(.small)")
    assert titles == [box.title for box in watched.graph.boxes]
    assert sum(1 for box in watched.graph.boxes if box.kind == "leaf") == 4
    overlaps = chromium.evaluate("""
      (() => {
        const boxes = [...document.querySelectorAll('.graph .hit')].map(b => b.getBoundingClientRect());
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
          a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
      })()
    """)
    assert overlaps == 0
    chromium.evaluate("document.querySelector('.graph .moment').focus()")
    chromium.press("End")
    assert "the loss" in chromium.focused()
