"""The site builds offline: all code runs, there is no warning and no broken link; it works in a browser."""

import os
import shutil
import subprocess
import sys

import check_site
import fences
import pytest

VISITED = ("index", "reference/optimizers", "explanation/verdicts", "explanation/heterogeneity", "gallery")


@pytest.fixture(scope="module")
def built():
    """The site, built as a reader would; it needs the extras docs and torch, and node."""
    for module in ("sphinx", "torch"):
        pytest.importorskip(module)
    if not shutil.which("node"):
        pytest.skip("node, which renders formulas, is not installed")
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, str(fences.DOCS / "build.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **offline})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return fences.DOCS / "_build" / "html"


@pytest.mark.slow
def test_the_built_site_has_no_faults(built):
    assert check_site.check(built) == []


@pytest.mark.slow
def test_formulas_are_rendered(built):
    text = (built / "explanation/heterogeneity.html").read_text(encoding="utf-8")
    assert "<math" in text
    assert "katex-error" not in text


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_in_a_browser(built, width):
    """No request leaves the site, no script fails, no page is wider than the window, tables sort and filter."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        requests, errors = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        for name in VISITED:
            page.goto((built / f"{name}.html").as_uri())
            page.wait_for_timeout(200)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert not [url for url in requests if not url.startswith(("file:", "data:"))]
        assert errors == []

        page.goto((built / "explanation/verdicts.html").as_uri())
        shown = "document.querySelectorAll('table.sortable tbody tr:not([hidden])').length"
        every_row = page.evaluate(shown)
        page.select_option(".table-controls select[aria-label='filter the rows by verdict']", "differs")
        assert 0 < page.evaluate(shown) < every_row
        texts = "[...document.querySelectorAll('table.sortable tbody tr')].map(row => row.cells[1].textContent.trim())"
        for relation in ("<= 0", ">= 0"):  # the first click sorts upwards, the second one downwards
            page.evaluate("document.querySelectorAll('table.sortable th button')[1].click()")
            order = "all[i - 1].localeCompare(x, 'en', {numeric: true})"
            assert page.evaluate(f"{texts}.every((x, i, all) => i === 0 || {order} {relation})")
        browser.close()
