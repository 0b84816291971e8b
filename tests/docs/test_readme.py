"""The README is short, its commands are those that CI runs, and what it links to exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_BYTES = 8192


def test_it_is_short():
    assert len(README.encode()) <= MAX_BYTES
    assert max(map(len, re.split(r"^## ", README, flags=re.MULTILINE))) < MAX_BYTES / 2


def links(text):
    """The relative targets of links and images."""
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target.partition("#")[0] for target in targets if not target.startswith("http")]


def test_what_it_links_to_exists():
    assert len(links(README)) > 8
    assert [target for target in links(README) if not (ROOT / target).exists()] == []
    assert links("[a](b.md#c) ![d](e.png) [f](https://g.org)") == ["b.md", "e.png"]


def test_ci_runs_its_line_of_tests():
    (line,) = (line for line in README.splitlines() if re.match(r"python3 -m venv .*pytest$", line))
    assert "'.[test]'" in line
    assert r"^python3 -m venv .*pytest$" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_its_first_line_of_code_runs_case_1():
    first = next(line for line in README.splitlines() if line.startswith("python3 "))
    assert first.endswith("-m quadsim case=1")
