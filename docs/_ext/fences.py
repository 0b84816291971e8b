"""Code fences of Markdown pages, and which of them are executed.

Fences of the languages python, pycon and sh are executed, unless the line before them is the comment
``<!-- not executed: REASON -->``. After ``<!-- show: output -->`` or ``<!-- show: figure -->`` the site shows below a
fence what it printed, or the matplotlib figure that it leaves in the variable ``figure``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SHOWN = DOCS / "_build" / "shown"  # outputs of executed fences: a folder for each page, a file for each shown fence
LANGUAGES = ("python", "pycon", "sh")
SHOWS = ("figure", "output")
ROOT_PAGES = ("README.md", "CONTRIBUTING.md")  # executed as well

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")


class PageError(ValueError):
    """A page whose fences do not follow the rules."""


@dataclass(frozen=True)
class Fence:
    """A fence: ``line`` is the number of its first line of code, ``number`` its position in the page."""

    language: str
    code: str
    line: int
    number: int
    not_executed: str = ""
    show: str = ""

    @property
    def executed(self) -> bool:
        return self.language in LANGUAGES and not self.not_executed

    @property
    def shown_as(self) -> str:
        """The name of the file that holds what is shown."""
        return f"{self.number}.{'svg' if self.show == 'figure' else 'txt'}"


def pages() -> list[Path]:
    """The pages with fences to execute, those of the root first. Generated pages show code, but hold none."""
    found = [ROOT / name for name in ROOT_PAGES if (ROOT / name).is_file()]
    return found + sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


def name_of(page: Path) -> str:
    """The name of a page: README, tutorials/four_cases; of a file outside of the repository that of the file."""
    root = next((root for root in (DOCS, ROOT) if page.is_relative_to(root)), page.parent)
    return page.relative_to(root).with_suffix("").as_posix()


def of(page: Path) -> list[Fence]:
    """The fences of a page."""
    return parse(page.read_text(encoding="utf-8"), name_of(page))


def parse(markdown: str, page: str = "text") -> list[Fence]:
    """The fences of a Markdown text."""
    fences: list[Fence] = []
    comments: dict[str, str] = {}
    lines = iter(enumerate(markdown.splitlines(), 1))
    for number, line in lines:
        if comment := _COMMENT.match(line):
            name, colon, value = comment[1].partition(":")
            if colon and name in ("not executed", "show"):
                comments[name] = value.strip()
                _check_comment(name, value.strip(), f"{page}:{number}")
        elif opening := _FENCE.match(line):
            indent, marks, info = opening.groups()
            code = []
            for _, inner in lines:
                if inner.strip().startswith(marks) and not inner.strip().strip(marks[0]):
                    break
                code.append(inner.removeprefix(indent))
            else:
                raise PageError(f"{page}:{number}: the fence does not end")
            language = info.split()[0] if info.split() else ""
            if comments and language not in LANGUAGES:
                raise PageError(
                    f"{page}:{number}: a comment on execution before a fence of {language or 'no language'}"
                )
            if "show" in comments and "not executed" in comments:
                raise PageError(f"{page}:{number}: a fence that is not executed has nothing to show")
            text = "\n".join(code) + "\n"
            fences.append(
                Fence(
                    language,
                    text,
                    number + 1,
                    len(fences) + 1,
                    comments.get("not executed", ""),
                    comments.get("show", ""),
                )
            )
            comments = {}
        elif line.strip() and comments:
            raise PageError(f"{page}:{number}: a comment on execution is not followed by a fence")
    if comments:
        raise PageError(f"{page}: a comment on execution is not followed by a fence")
    return fences


def _check_comment(name: str, value: str, place: str) -> None:
    if name == "show" and value not in SHOWS:
        raise PageError(f"{place}: show must be one of {', '.join(SHOWS)}, got {value!r}")
    if name == "not executed" and len(value.split()) < 2:
        raise PageError(f"{place}: give the reason: <!-- not executed: REASON -->")
