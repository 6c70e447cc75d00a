"""Tests of the page in a browser: full content at any width, sortable tables, chart values."""

import json
import os
import select
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from selection import choose

from privopt.lab.report.report import write_report
from privopt.lab.runner.store import open_results, write_provenance, write_recorded

RESULTS = Path(__file__).parents[2] / "results"

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
"""Seconds in which a browser says something."""

BECOME = """import os, sys
os.dup2(int(sys.argv[1]), 3), os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
"""A process that puts its pipes where the browser looks for them, and becomes the browser."""


def found():
    """The browser's path: ``PRIVOPT_BROWSER``, else the first on PATH; None without one."""
    return os.environ.get("PRIVOPT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def is_error(event):
    """Return True if a script raised an error or a resource could not be loaded."""
    logged = event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
    return logged or event["method"] == "Runtime.exceptionThrown"


class Browser:
    """One page of a browser; the browser ends with the ``with`` block.

    It speaks the protocol of the developer tools: JSON messages that end in a zero byte, read by
    the browser from file descriptor 3 and written by it to file descriptor 4.
    """

    def __init__(self, path, folder):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", BECOME, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers, self._rest, self.events = count(1), b"", []
        self._session = None

    def __enter__(self):
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def open(self, url, width, height):
        """Load a page at a size of the window, and wait until its pictures are there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        self._ask("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def run_scripts(self, told):
        """Turn scripts on or off for pages that are opened from now on."""
        self._ask("Emulation.setScriptExecutionDisabled", value=not told)

    def evaluate(self, expression):
        """The value of JavaScript in the page, as JSON has it."""
        told = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    @property
    def errors(self):
        """Return the script errors and the failed loads since the page was opened."""
        return [event["params"] for event in self.events if is_error(event)]

    def _ask(self, method, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], PATIENCE)
            data = os.read(self._read, 2**16) if ready else b""
            assert data, f"the browser is silent, its status {self._process.poll()}"
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        told = json.loads(message)
        if "method" in told:
            self.events.append(told)
        return told


pytestmark = pytest.mark.skipif(found() is None, reason="no Chromium on PATH or PRIVOPT_BROWSER")

WIDTHS = {390: 844, 1440: 900, 1920: 1080}
"""Windows of a telephone, a laptop and a desktop: their heights by width."""

SCREENS = {390: 0.5, 1440: 0.3}  # of each experiment
"""Largest height of the committed report by width; for half of it, the height below its head."""
HEAD = choose("0", "document.querySelector('article').getBoundingClientRect().top")

WIDE = """[...document.querySelectorAll("body *")]
    .filter(each => each.checkVisibility() && !each.closest("thead, svg"))
    .filter(each => { const at = each.getBoundingClientRect();
                      return at.width > 0 && (at.right > innerWidth + 1 || at.left < -1); })
    .map(each => each.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll("td, th, p, dd")]
    .filter(each => each.checkVisibility() && !each.closest("thead"))
    .filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.outerHTML.slice(0, 80))"""
BROKEN = """(() => {
    const broken = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        const around = node.parentElement;
        const unseen = around.closest("script") || around.closest("thead")?.offsetWidth === 1;
        if (unseen || !around.checkVisibility()) continue;
        for (const word of node.data.matchAll(/(?<!\\w)[\\p{L}\\p{N}.,]{1,60}(?!\\w)/gu)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(each => Math.round(each.top))).size > 1)
                broken.push(word[0]);
        }
    }
    return broken;
})()"""
CROSSED = """(() => {
    const text = all => [...document.querySelectorAll(all)].filter(each => each.checkVisibility());
    return text("td, th").flatMap(cell => {
        const range = document.createRange(), next = cell.nextElementSibling;
        range.selectNodeContents(cell);
        const at = range.getBoundingClientRect(), beside = next?.getBoundingClientRect();
        const crosses = beside && beside.top < at.bottom && at.right > beside.left + 1;
        return crosses ? [cell.textContent] : [];
    });
})()"""
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
PICTURES = """[...document.images].map(each => each.complete && each.naturalWidth)"""
SORT = """(() => {
    const table = document.querySelector("main table"), at = name =>
        [...table.tHead.rows[0].cells].findIndex(each => each.textContent.startsWith(name));
    const column = at("measured"), button = table.tHead.rows[0].cells[column].firstChild;
    const read = () => [...table.tBodies[0].rows].map(row =>
        parseFloat(row.cells[column].textContent.replace(/\\u2212/g, "-")));
    button.click(); const up = read();
    button.click(); return [up, read()];
})()"""


@pytest.fixture(scope="module")
def page(synthetic, tmp_path_factory):
    """The address of a report with slopes and bounds, long names among them."""
    folder = open_results(tmp_path_factory.mktemp("page") / "results")
    sizes = {"axes": {"n": (500, 1000, 2000, 4000), "dim": (8, 16, 32, 64)}, "spread": 0.1}
    real = {"axes": {"n": (500, 1000, 2000)}, "replicates": 10, "checks": ("bound",)}
    families = {"families": ("breast_cancer_logistic_population", "digits"), "tight_on": None}
    methods = {"methods": ("approximate_minima_perturbation", "regularised_exponential_mechanism")}
    for recorded in (
        synthetic(**sizes, experiment="strongly_convex_output_perturbation"),
        synthetic(**sizes, experiment="wrong", true={"n": -0.5, "dim": 0.5}),
        synthetic(**real, **families, **methods, experiment="real"),
    ):
        write_recorded(folder / recorded.about["name"], recorded)
        told = {"run_seconds": 12.3, "compile_seconds": 5.6, "cells": 15, "reused": 2}
        where = {"environment": {"python": "3.11", "machine": "abacus" * 20}, "code": "0" * 64}
        told |= {**where, "profile": "quick", "date": "2026-01-31"}
        write_provenance(folder / recorded.about["name"], told)
    return write_report(folder).as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(found(), tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """The address of the report on half of the committed results, copied alone elsewhere."""
    folder = tmp_path_factory.mktemp("committed") / "results"
    names = sorted(path.parent.name for path in RESULTS.glob("*/cells.parquet"))
    others = {*names} - {*names[:: choose(1, 2)]}
    shutil.copytree(RESULTS, folder, ignore=shutil.ignore_patterns("index.html", "cells", *others))
    alone = tmp_path_factory.mktemp("alone") / "index.html"
    shutil.copy(write_report(folder, redraw=False), alone)
    assert alone.stat().st_size < 6_000_000
    return alone.as_uri()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_or_broken_at_any_width(browser, page, width):
    browser.open(page, width, WIDTHS[width])
    for action in ("0", OPEN):
        browser.evaluate(action)
        assert browser.evaluate("document.documentElement.scrollWidth") == width
        for wrong in (WIDE, CUT, BROKEN, CROSSED):
            assert browser.evaluate(wrong) == []
    pictures = browser.evaluate(PICTURES)
    assert len(pictures) == 3
    assert all(pictures)
    assert browser.errors == []


@pytest.mark.parametrize("width", SCREENS)
def test_the_committed_report_is_short_and_whole(browser, committed, width):
    browser.open(committed, width, WIDTHS[width])
    height = browser.evaluate(f"document.documentElement.scrollHeight - {HEAD}")
    experiments = browser.evaluate("document.querySelectorAll('article').length")
    assert height <= experiments * SCREENS[width] * WIDTHS[width]
    browser.evaluate(OPEN)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    for wrong in (WIDE, CUT, BROKEN, CROSSED):
        assert browser.evaluate(wrong) == []
    assert browser.errors == []


CHOOSE = """((name, value) => {
    const field = document.querySelector(".filter").elements[name];
    field.value = value;
    field.dispatchEvent(new Event("input", {bubbles: true}));
    return ["tr[data-family]", "article"].map(each => [...document.querySelectorAll(each)]
        .filter(each => each.checkVisibility()).map(each => each.textContent));
})"""


def test_filters_and_search_hide_rows_and_experiments(browser, page):
    browser.open(page, 1440, 900)

    def shown(name, value):
        return browser.evaluate(f"{CHOOSE}({name!r}, {value!r})")

    every = shown("verdict", "")
    assert [len(each) for each in every] == [0, 3]  # the tables are folded
    rows, experiments = shown("verdict", "refuted")
    assert len(rows) == len(experiments) == 1
    assert "Wrong" in rows[0]
    assert shown("text", "WRONG refuted") == [rows, experiments]
    assert shown("text", "no such words") == [[], []]
    assert shown("text", "") == [rows, experiments]
    shown("verdict", "")
    for name in ("family", "algorithm"):
        options = f"[...document.querySelector('.filter').elements.{name}.options]"
        (value, *_) = browser.evaluate(f"{options}.map(each => each.value)")[1:]
        rows, experiments = shown(name, value)
        assert 0 < len(experiments) <= 3
        assert len(rows) > 0
        assert shown(name, "") == every
    assert browser.errors == []


def test_a_link_shows_what_is_folded_or_filtered_away(browser, page):
    browser.open(page, 1440, 900)
    browser.evaluate(f"{CHOOSE}('text', 'no such words')")
    browser.evaluate("location.hash = document.querySelector('.refuted a').hash")
    browser.evaluate("reveal()")
    article = "document.getElementById('wrong')"
    assert browser.evaluate(f"{article}.checkVisibility()")
    assert browser.evaluate(f"{article}.getBoundingClientRect().top") < 900
    assert browser.evaluate(f"{article}.querySelector('details').open")


def test_without_its_script_the_page_is_whole(browser, page):
    browser.run_scripts(False)
    try:
        browser.open(page, 1440, 900)
    finally:
        browser.run_scripts(True)
    assert browser.evaluate("document.querySelector('.filter')") is None
    assert browser.evaluate("document.querySelectorAll('article, tr[data-family]').length") > 6
    assert browser.evaluate("document.querySelectorAll('[hidden]').length") == 0


HOVER = """(() => {
    const drawing = document.querySelector(".chart svg"), at = drawing.getBoundingClientRect();
    const where = {clientX: at.right - 20, clientY: at.top + 50, bubbles: true};
    drawing.dispatchEvent(new PointerEvent("pointermove", where));
    return document.querySelector(".tip").textContent;
})()"""


def test_the_chart_shows_values_and_hides_methods(browser, page):
    browser.open(page, 1440, 900)
    select = "document.querySelector('.pickers').elements.problem"
    names = browser.evaluate(f"[...{select}.options].map(each => each.value)")
    assert "Wrong: linear" in names
    browser.evaluate(f"{select}.value = 'Wrong: linear'")
    browser.evaluate(f"{select}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    shown = browser.evaluate(HOVER)
    assert "records\N{NO-BREAK SPACE}n = 4,000" in shown
    assert "DP-GD: 0.0" in shown
    assert ", bound 0.0" in shown
    lines = "document.querySelectorAll('.chart g path').length"
    before = browser.evaluate(lines)
    browser.evaluate("document.querySelector('.keys button').click()")
    assert browser.evaluate(lines) < before
    assert browser.errors == []


def test_a_column_sorts_by_its_numbers(browser, page):
    browser.open(page, 1440, 900)
    up, down = browser.evaluate(SORT)
    assert up == sorted(up) != down
    assert down == sorted(up, reverse=True)
    assert min(up) < 0.0 < max(up)
    assert browser.errors == []
