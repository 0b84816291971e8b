"""Version, citation, changelog and hooks agree with each other and with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML, which the extra docs brings, is not installed")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASES = re.findall(r"^## \[(.+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_releases_are_dated_and_in_order():
    assert RELEASES[0][0] == PROJECT["version"]
    numbers = [tuple(map(int, version.split("."))) for version, _ in RELEASES]
    dates = [date for _, date in RELEASES]
    assert numbers == sorted(numbers, reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for date in dates)
    assert dates == sorted(dates, reverse=True)


def test_headings_of_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(RELEASES)  # every release has a date


def test_the_citation_has_the_version_and_its_date():
    citation = read("CITATION.cff")
    assert (citation["version"], citation["date-released"]) == RELEASES[0]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == [{"name": author["name"]} for author in PROJECT["authors"]]
    assert {"cff-version", "message", "title"} <= set(citation)


def test_hooks_run_the_tools_of_the_extra_lint():
    hooks = [hook for repository in read(".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    assert {hook["entry"].split()[0] for hook in hooks} == {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python"}
    assert {hook["language"] for hook in hooks} == {"system"}


def test_the_workflow_runs_what_a_change_must_pass():
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"].split()[0] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_types_are_part_of_the_package():
    assert (ROOT / "quadsim/py.typed").is_file()
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"py.typed", "*.pyi"' in text
    assert "Typing :: Typed" in PROJECT["classifiers"]
