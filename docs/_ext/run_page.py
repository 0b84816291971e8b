"""Execute the fences of one page: python docs/_ext/run_page.py docs/tutorials/four_cases.md

The fences run in order, in one process, one namespace and one empty folder: python, pycon (doctests) and sh, line by
line. The first error ends the run with exit code 1. What the page shows is written to docs/_build/shown/PAGE.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fences
from fences import Fence

DOCTEST_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SH_TIMEOUT = 300  # seconds for one line


class Failed(Exception):
    """A fence failed; the message says how."""


def run(page: Path, folder: Path, out: Path) -> None:
    """Execute the fences of a page in a folder; write what it shows to the folder ``out``."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # so that classes and functions of the page are found by their module
    namespace = vars(module)
    with contextlib.chdir(folder):
        for fence in fences.of(page):
            if not fence.executed:
                continue
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    RUNNERS[fence.language](fence, page, namespace)
            except Failed as error:
                raise Failed(f"{page}:{fence.line}: {error}") from None
            if fence.show:
                out.mkdir(parents=True, exist_ok=True)
                _save(fence, page, printed.getvalue(), namespace, out)


def _run_python(fence: Fence, page: Path, namespace: dict[str, object]) -> None:
    """Execute statements. Line numbers of tracebacks are those of the page, and `inspect.getsource` finds functions."""
    name, code = f"{page}, fence {fence.number}", "\n" * (fence.line - 1) + fence.code
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name  # None: there is no file to compare
    try:
        exec(compile(code, name, "exec"), namespace)
    except (Exception, SystemExit):
        raise Failed(traceback.format_exc()) from None


def _run_pycon(fence: Fence, page: Path, namespace: dict[str, object]) -> None:
    examples = doctest.DocTestParser().get_doctest(fence.code, namespace, page.name, str(page), fence.line - 1)
    if not examples.examples:
        raise Failed("a pycon fence has no >>> prompt")
    examples.globs = namespace  # not a copy: later fences see the names
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=DOCTEST_OPTIONS, verbose=False)
    if runner.run(examples, out=report.write, clear_globs=False).failed:
        raise Failed(report.getvalue())


def _run_sh(fence: Fence, page: Path, namespace: dict[str, object]) -> None:
    for line in shell_lines(fence.code):
        command = ["bash", "-e", "-o", "pipefail", "-c", line]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SH_TIMEOUT)
        print(done.stdout, end="")
        if done.returncode:
            raise Failed(f"exit code {done.returncode} of {line}\n{done.stdout}{done.stderr}")


RUNNERS = {"python": _run_python, "pycon": _run_pycon, "sh": _run_sh}


def shell_lines(code: str) -> list[str]:
    """The lines of a sh fence without comments and empty lines; a backslash at the end joins two lines."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


def _save(fence: Fence, page: Path, printed: str, namespace: dict[str, object], out: Path) -> None:
    if fence.show == "output":
        if not printed.strip():
            raise Failed(f"{page}:{fence.line}: show: output, but the fence printed nothing")
        (out / fence.shown_as).write_text(printed, encoding="utf-8")
        return
    figure = namespace.get("figure")
    if not hasattr(figure, "savefig"):
        raise Failed(f"{page}:{fence.line}: show: figure, but the variable figure is {type(figure).__name__}")
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "quadsim"}):
        figure.savefig(out / fence.shown_as, bbox_inches="tight", metadata={"Date": None})
    (out / f"{fence.number}.alt").write_text(_alt_text(figure), encoding="utf-8")


def _alt_text(figure: Any) -> str:
    """The title of a figure, or those of its axes."""
    titles = [figure.get_suptitle(), *(axes.get_title(loc) for axes in figure.axes for loc in ("left", "center"))]
    return " ".join("; ".join(dict.fromkeys(title for title in titles if title)).split()) or "figure"


def environment() -> dict[str, str]:
    """The environment of a page: this python first on PATH, this checkout of quadsim, no display."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    packages = os.pathsep.join(filter(None, [str(fences.ROOT), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": packages,
        "MPLBACKEND": "Agg",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
    }


def in_process(page: Path) -> tuple[str, float]:
    """Execute a page in a process of its own: the message of its error, or "", and the seconds of CPU that it took."""
    command = [sys.executable, __file__, str(page)]
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip() or f"{page}: exit code {done.returncode}", 0.0
    return "", float(done.stdout.split()[-2])


def cpu_seconds() -> float:
    """The CPU time of this process and its children."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(page: Path) -> int:
    page = page.resolve()
    os.environ.update(environment())
    sys.path.insert(0, str(fences.ROOT))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as shown:
        out = fences.SHOWN / fences.name_of(page) if page.is_relative_to(fences.ROOT) else Path(shown)
        shutil.rmtree(out, ignore_errors=True)
        try:
            run(page, Path(folder), out)
        except (Failed, fences.PageError) as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{fences.name_of(page)}: {cpu_seconds():.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
