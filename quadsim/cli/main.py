"""The entry point of the command line: read it, run the command, map errors to exit codes.

Each module of `commands/` is one command: its docstring is its summary and examples, `KEYS` are the keys that it takes,
`main(line)` runs it and returns the exit code (None is 0). Optional attributes: `SETTINGS = True`, it takes settings of
optimizers, NAME.SETTING=; `NAMES = True`, it takes words that are not key=value; `PARSE = False`, it checks and parses
its keys itself; `FLAGS`, its own flags. Modules that are slow to import are imported where they are used.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.cli import arguments, help_text
from quadsim.cli.console import print_error

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code: 0, 1 if a run or a check failed, 2 for usage."""
    _prepare_streams()
    argv = sys.argv[1:] if argv is None else argv
    try:
        return _main(argv)
    except InputError as error:
        from quadsim.cli import mistakes

        print_error(mistakes.answer(argv) or str(error))
        return 2
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130
    except BrokenPipeError:  # the reader of standard output, for example `head`, has ended
        _discard_output()
        return 141  # as shells report SIGPIPE
    except MemoryError:
        print_error("there is not enough memory for a problem of this size")
        return 1
    except OSError as error:
        name = error.filename
        if name is None and error.errno in DISK_FULL:  # an error about another file has its name
            name = "standard output"
            _discard_output()
        print_error(f"{error.strerror or error}{f': {name}' if name is not None else ''}")
        return 1
    except RecursionError:
        print_error("the input is nested too deeply")
        return 1


def _main(argv: Sequence[str]) -> int:
    if list(argv[:2]) == ["completion", "--complete"]:  # a shell at a TAB: the words that follow are incomplete
        from quadsim.cli import completion

        print(completion.answer(argv[2:]), end="")
        return 0
    line, code = arguments.read(argv, help_text.commands()), 0
    for flag in sorted(line.flags - set(arguments.FLAGS)):
        checks.choice("flag", flag, [*arguments.FLAGS, *help_text.flags()])
    if "--help" in line.flags and line.has_command:
        print(help_text.of_word(line.command), end="")
    elif "help" in argv and line.texts:
        print(help_text.of_word(next(iter(line.texts))), end="")
    elif not argv or "--help" in line.flags:
        print(help_text.overview(), end="")
    elif "--version" in line.flags:
        from importlib.metadata import version

        print(f"quadsim {version('quadsim')}")
    else:
        code = _run(line, importlib.import_module(f"quadsim.cli.commands.{line.command}"))
    sys.stdout.flush()
    return code


def _run(line: arguments.CommandLine, module: Any) -> int:
    arguments.check(line, module)
    from quadsim import _progress

    with _progress.Task(line.command, background=True):
        return module.main(line) or 0


def _prepare_streams() -> None:
    """Replace characters that the encoding lacks by question marks; discard output to a closed stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Discard buffered standard output, which Python would fail to write at exit."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: standard output has no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
