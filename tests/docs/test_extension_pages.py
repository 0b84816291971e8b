"""The how-to pages on extension points, followed literally in a copy of the repository.

A block with a file name as its caption is that file; a block of `diff` with a caption is an edit of an existing file;
`bash` blocks are run; the lines of the `text` block after them must be in the output, where … stands for any text.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/howto").glob("add_*.md"))
COPIED = ("quadsim", "tests", "experiments", "pyproject.toml")
BLOCK = re.compile(r"^```(\{code-block\} )?(\w+)\n(?::caption: (\S+)\n\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT = 300  # seconds for one command


class Block(NamedTuple):
    kind: str
    caption: str
    text: str


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [Block(match[2], match[3] or "", match[4]) for match in BLOCK.finditer(text)]


def edited(text, diff):
    """A text after an edit: the lines that a diff keeps and removes, which must occur once, are replaced."""
    lines = [(line[:1], line[1:]) for line in diff.splitlines()]
    assert {mark for mark, _ in lines} <= {" ", "+", "-", ""}, diff
    before, after = ("".join(f"{line}\n" for mark, line in lines if mark != other) for other in "+-")
    assert text.count(before) == 1, f"{text.count(before)} places in the file look like this:\n{before}"
    return text.replace(before, after)


def copy_of_the_repository(folder):
    for name in COPIED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)


def run(command, folder):
    env = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    line = ["bash", "-euo", "pipefail", "-c", command]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": TIMEOUT}
    return subprocess.run(line, cwd=folder, env={**env, "PATH": path}, **options)


def apply(block, folder):
    """Write the file of a block, or edit it."""
    path = folder / block.caption
    if block.kind == "diff":
        path.write_text(edited(path.read_text(encoding="utf-8"), block.text), encoding="utf-8")
    else:
        assert not path.exists(), f"{block.caption} exists"
        path.write_text(block.text, encoding="utf-8")


def missing(expected, output):
    """The lines of an expected output that are not in the output, in this order."""
    patterns = [".*".join(map(re.escape, line.split("…"))) for line in expected.splitlines()]
    lines, absent = iter(output.splitlines()), []
    for pattern in patterns:
        if not any(re.search(pattern, line) for line in lines):
            absent.append(pattern)
            lines = iter(output.splitlines())
    return absent


def test_every_extension_point_has_a_page():
    assert [page.stem for page in PAGES] == [
        f"add_{name}"
        for name in ("claim", "closed_form", "command", "key", "noise_model", "optimizer", "published_figure")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_works_when_it_is_followed_literally(page, tmp_path):
    copy_of_the_repository(tmp_path)
    commands = [line for block in blocks(page) if block.kind == "bash" for line in block.text.splitlines()]
    before = run(commands[0], tmp_path)  # the control: without the files of the page
    assert before.returncode or missing(_first_output(page), before.stdout), before.stdout
    outputs, shown = "", 0
    for block in blocks(page):
        if block.caption:
            apply(block, tmp_path)
        elif block.kind == "bash":
            outputs = ""
            for command in block.text.splitlines():
                done = run(command, tmp_path)
                assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}"
                outputs += done.stdout
        elif block.kind == "text":
            assert not missing(block.text, outputs), outputs[-3000:]
            shown += 1
    assert shown
    if importlib.util.find_spec("ruff"):
        files = " ".join({block.caption for block in blocks(page) if block.caption})
        for check in ("format --diff", "check"):
            done = run(f"python -m ruff {check} {files}", tmp_path)
            assert done.returncode == 0, done.stdout


def _first_output(page):
    return next(block.text for block in blocks(page) if block.kind == "text")


def test_edits():
    assert edited("a\nb\nc\n", " a\n-b\n+B\n") == "a\nB\nc\n"
    assert edited("a\n\nc\n", " a\n\n+b\n") == "a\n\nb\nc\n"
    for text in ("a\nb\na\nb\n", "b\n"):  # in two places; nowhere
        with pytest.raises(AssertionError, match="places in the file look like this"):
            edited(text, " a\n+b\n")


def test_missing_lines():
    assert missing("one … three\nlast", "one two three\nand\nthe last\n") == []
    assert len(missing("one … three\nlast", "one two four\nlast\n")) == 1
    assert len(missing("b\na", "a\nb\n")) == 1  # in another order
