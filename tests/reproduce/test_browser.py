"""The report in a real browser: it loads from disk, its sliders move the curves, and no request leaves it.

Needs Chromium and `quadsim[browser]`; skipped without them.
"""

import os
import shutil
import time
from pathlib import Path

import pytest

from quadsim.cli import main as cli

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("QUADSIM_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
FIGURES = Path(__file__).parents[2] / "figures"
SIZES = {"phone": (360, 740), "tablet": (768, 1024), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert cli.main(["report", f"figures={FIGURES}", f"out={path}"]) == 0
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield one
        one.close()


class LoadedPage:
    """A page with its requests and its error messages."""

    def __init__(self, browser, path, size="desktop"):
        width, height = SIZES[size]
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.requests, self.errors = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())

    def left_the_page(self, path):
        return [url for url in self.requests if url != path.as_uri() and not url.startswith("data:")]

    def curves(self):
        return self.page.eval_on_selector_all("#panels path", "all => all.map(one => one.getAttribute('d'))")

    def captions(self):
        return self.page.eval_on_selector_all("#panels figcaption", "all => all.map(one => one.innerText)")

    def wait_until(self, expression, seconds=10.0):
        """Poll from here: `wait_for_function` polls inside the page, whose policy forbids eval."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, expression
            self.page.wait_for_timeout(20)

    def slide(self, axis, to):
        self.page.eval_on_selector(
            f"#{axis}",
            "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
            to,
        )


@pytest.fixture
def seen(browser, report):
    one = LoadedPage(browser, report)
    yield one
    one.page.close()


def test_it_loads_without_complaint_and_asks_for_nothing(seen, report):
    assert seen.page.title().startswith("quadsim")
    assert seen.errors == []
    assert seen.left_the_page(report) == []
    broken = seen.page.eval_on_selector_all("img", "all => all.filter(one => !one.naturalWidth).length")
    assert broken == 0
    assert seen.page.locator("img").count() >= 10


def test_the_watch_sees_requests_and_the_policy_stops_them(seen, browser, report, tmp_path):
    """The control: a picture from elsewhere is noticed, and the page's policy does not let it through."""
    planted = tmp_path / "planted.html"
    text = report.read_text(encoding="utf-8")
    policy = text[text.index("<meta http-equiv") : text.index(">", text.index("<meta http-equiv")) + 1]
    planted.write_text(
        text.replace(policy, "").replace("</body>", '<img src="http://localhost:9/x.png"></body>'), encoding="utf-8"
    )
    other = LoadedPage(browser, planted)
    assert other.left_the_page(planted) == ["http://localhost:9/x.png"]
    other.page.close()
    stopped = tmp_path / "stopped.html"
    stopped.write_text(text.replace("</body>", '<img src="http://localhost:9/x.png"></body>'), encoding="utf-8")
    other = LoadedPage(browser, stopped)
    assert any("Content Security Policy" in sentence for sentence in other.errors)
    other.page.close()


@pytest.mark.parametrize("axis", ["kappa", "heterogeneity", "rotation", "seed"])
def test_each_slider_moves_the_curves_and_brings_them_back(seen, axis):
    before, captions = seen.curves(), seen.captions()
    assert len(before) == 12
    assert len(captions) == 4
    start = seen.page.input_value(f"#{axis}")
    label = seen.page.inner_text(f"#{axis}-value")
    seen.slide(axis, "3" if start != "3" else "1")
    assert seen.curves() != before
    assert seen.captions() != captions
    assert seen.page.inner_text(f"#{axis}-value") != label
    seen.slide(axis, start)
    assert seen.curves() == before
    assert seen.errors == []


def test_turning_a_phone_keeps_what_was_chosen(seen):
    seen.slide("kappa", "1")
    before = seen.captions()
    seen.page.set_viewport_size({"width": 400, "height": 800})
    seen.wait_until("document.querySelector('#panels svg').viewBox.baseVal.width < 400")
    assert seen.captions() == before
    assert len(seen.curves()) == 12


def test_sliders_have_names(seen):
    for name in ("condition number", "heterogeneity", "rotation", "seed"):
        assert seen.page.get_by_role("slider", name=name).count() == 1


def test_eigenvalues_are_named_only_where_they_are_those(seen):
    assert "4998, 4999, 5000" in seen.captions()[2]
    seen.slide("kappa", "4")
    assert "4998" not in seen.captions()[2]
    assert "at κ = 500,000" in seen.captions()[2]
    seen.slide("kappa", "2")
    seen.slide("heterogeneity", "5")
    assert "heterogeneity 1 (arrangement 5 of 5)" in seen.captions()[3]


def test_keys_move_a_slider_too(seen):
    before = seen.curves()
    seen.page.focus("#kappa")
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.inner_text("#kappa-value") == "50,000"
    assert seen.curves() != before


def test_the_explorer_tells_what_the_simulator_finds(seen):
    """The steps on the page are those of `exact`, here for Case 3 at its own settings and at others."""
    import quadsim as qs

    def steps(**settings):
        problem = qs.case(3, **settings)
        return [qs.exact(problem, one, w0=problem.start(settings["seed"]), tol=1e-6).steps_to_tol
                for one in (qs.GD(), qs.FrozenAdam(), qs.BlockGD())]  # fmt: skip

    def shown():
        argv = seen.captions()[2].replace("(β2 = 1)", "")
        return [int(word.replace(",", "")) for word in argv.split("\n")[1].split() if word.replace(",", "").isdigit()]

    assert shown() == steps(seed=0)
    seen.slide("kappa", "1")
    seen.slide("heterogeneity", "3")
    seen.slide("rotation", "2")
    seen.slide("seed", "4")
    assert shown() == steps(seed=4, kappa=500, heterogeneity=0.6, rotation=0.1)


@pytest.mark.parametrize("size", list(SIZES))
def test_it_reads_well(browser, report, size):
    """No sideways scrolling of the page, letters of at least 11 pixels, sliders that a finger can hold."""
    one = LoadedPage(browser, report, size)
    page, width = one.page, SIZES[size][0]
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll')
             && one.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert wide == 0
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll('body *')]
             .filter(one => [...one.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())
                            && !['SCRIPT', 'STYLE'].includes(one.tagName) && one.getClientRects().length)
             .map(one => parseFloat(getComputedStyle(one).fontSize)
                         * (one.ownerSVGElement ? one.ownerSVGElement.getBoundingClientRect().width
                            / one.ownerSVGElement.viewBox.baseVal.width : 1)))"""
    )
    assert smallest >= 11
    for slider in page.query_selector_all("input[type=range]"):
        box = slider.bounding_box()
        assert box["height"] >= 24
        assert box["width"] >= 100
    columns = page.evaluate("getComputedStyle(document.getElementById('panels')).gridTemplateColumns.split(' ').length")
    assert columns == {"phone": 1, "tablet": 1, "desktop": 2}[size]
    page.close()
