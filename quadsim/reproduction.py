"""A published figure, made anew and checked: what was published beside what came out, and a verdict from the two.

A script in experiments/ has one `Reproduction`: how to measure, what to check in the tables that this gives, how to
draw them. Checks see tables and nothing else, so a verdict is a function of the data that lies beside it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import _files, checks, results
from quadsim.checks import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ORDER = (  # the scripts, as they are shown
    "zhang_four_cases",
    "zhang_histograms",
    "zhang_heat_maps",
    "zhang_r",
    "zhang_js_gap",
    "orvieto_gower",
    "orvieto_gower_eps",
    "adam_mini_scaling",
    "adam_mini_blockwise",
    "das_preconditioning",
    "kunstner_bach_zipf",
    "adam_floor",
    "float64_trap",
    "rotation_axis",
    "massive_lion",
    "skip_update",
    "batch_crossover",
    "zoo_kappa",
)
LONG = ("zoo_kappa", "skip_update", "orvieto_gower_eps", "massive_lion", "orvieto_gower", "batch_crossover")
MOST_BYTES = 2**20  # of a script
VERDICTS = {True: "reproduced", False: "differs", None: "cannot be checked"}
Tables = dict[str, "pd.DataFrame"]  # by the suffix of the file: "" and, say, "-draws"


@dataclass(frozen=True)
class Check:
    """One sentence of what was published, beside what came out.

    Parameters
    ----------
    what :
        What is compared, in a few words.
    published, found :
        What was published, and what came out; short, with its numbers.
    holds :
        Whether the two agree; None where that cannot be known.
    why :
        Why not, if they do not.
    """

    what: str
    published: str
    found: str
    holds: bool | None
    why: str = ""

    def __post_init__(self) -> None:
        for name in ("what", "published", "found", "why"):
            if not isinstance(getattr(self, name), str):
                raise InputTypeError(f"{name} of a check must be text, got {checks.shown(getattr(self, name))}")
        if self.holds is not None and type(self.holds).__name__ not in ("bool", "bool_"):  # bool_: numpy's
            raise InputTypeError(f"holds of “{self.what}” must be True, False or None, got {checks.shown(self.holds)}")

    @property
    def verdict(self) -> str:
        return VERDICTS[self.holds if self.holds is None else bool(self.holds)]

    def row(self) -> dict[str, str]:
        """The check in plain words; the reason is that of a difference."""
        words = {key: text for key, text in asdict(self).items() if key != "holds"}
        return {**words, "why": "" if self.holds else self.why or "not explained", "verdict": self.verdict}


@dataclass(frozen=True)
class Reproduction:
    """A published figure and how it is made anew.

    Parameters
    ----------
    name :
        The stem of its files.
    source :
        Whose figure it is: "Zhang et al., figure 3".
    arxiv :
        Where that is to be read, or nothing.
    measure :
        fast → tables. ``fast`` asks for as few draws as show the same.
    check :
        tables → checks.
    draw :
        tables → the figure, whose title states what was found.
    """

    name: str
    source: str
    measure: Callable[[bool], Tables]
    check: Callable[[Tables], Sequence[Check]]
    draw: Callable[[Tables], Figure]
    arxiv: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise InputError(f"{checks.shown(self.name)} names no files: use small letters, digits and dashes")

    def make(self, folder: Path, command: str, *, fast: bool = False, redraw: bool = False) -> dict[str, Any]:
        """Measure, check, draw and write; what is known of it then (its JSON). ``redraw``: from the tables there."""
        tables, said = self.read(folder) if redraw else (self.measure(fast), {"fast": fast})
        figure, checked = self.draw(tables), [one.row() for one in self.check(tables)]
        title = " ".join(figure.get_suptitle().split())
        if not title or not checked:
            raise InputError(f"{self.name} has no {'checks' if title else 'title'}")
        made = {
            "name": self.name,
            "source": self.source,
            "arxiv": self.arxiv,
            "title": title,
            "caption": " ".join(figure.get_supxlabel().split()),
            "command": command,
            "fast": said["fast"],
            "tables": list(tables),
            "checks": checked,
            "versions": said.get("versions") or results.versions(),
        }
        results.write(folder, self.name, figure, {} if redraw else tables, made)
        return made

    def read(self, folder: Path) -> tuple[Tables, dict[str, Any]]:
        """The tables that lie in a folder, and what is known of them."""
        from quadsim.table import read_csv

        said = record(folder / f"{self.name}.json")
        tables = {}
        for suffix in said["tables"]:
            path = folder / f"{self.name}{suffix}.csv"
            try:
                tables[suffix] = read_csv(path)
            except (OSError, ValueError) as error:  # ValueError: what pandas says of a file that is no table
                reason = getattr(error, "strerror", None) or " ".join(str(error).split())
                raise InputError(f"{path} cannot be read ({reason}): make it anew, without redraw=true") from None
        return tables, said


def record(path: Path) -> dict[str, Any]:
    """What is known of a figure, from its JSON; raises where that is not what a run writes."""
    if not path.is_file():
        raise InputError(f"{path} is not there: make it first, without redraw=true")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        texts = [said[key] for key in ("name", "source", "arxiv", "title", "command")]
        texts += [one[key] for one in said["checks"] for key in ("what", "published", "found", "why", "verdict")]
        right = all(isinstance(text, str) for text in texts) and isinstance(said["fast"], bool) and said["checks"]
        right = right and all(one["verdict"] in VERDICTS.values() for one in said["checks"])
        right = right and all(isinstance(suffix, str) for suffix in said["tables"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise InputError(f"{path} is damaged: delete it, or make it anew with python -m quadsim reproduce")
    return said


def load(path: Path) -> Reproduction:
    """The reproduction that a script holds."""
    spec = importlib.util.spec_from_file_location(f"quadsim_experiment_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path} is not a Python script: give one such as experiments/zhang_four_cases.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    found = getattr(module, "REPRODUCTION", None)
    if not isinstance(found, Reproduction):
        raise InputError(f"{path} has no REPRODUCTION: its last lines say how to measure, check and draw")
    return found


def scripts(names: Iterable[str] = ()) -> list[Path]:
    """The scripts of these names, or paths; all of them if none is named.

    They are looked up in experiments/ of the working folder, then of the clone that this package is imported from. An
    installed package has none.
    """
    folders = [at for at in (Path("experiments"), Path(__file__).parents[1] / "experiments") if at.is_dir()]
    folders = [at for at in folders if any((at / f"{name}.py").is_file() for name in ORDER)]
    chosen = []
    for name in names or ORDER:
        if name.endswith(".py"):
            chosen.append(_files.check_file("", name, at_most=MOST_BYTES))
            continue
        checks.choice("figure", name.replace("-", "_"), ORDER)
        if not folders:
            raise InputError(
                "the scripts (experiments/) are not installed with the package: work in a clone of quadsim, or give a "
                "script's path"
            )
        chosen.append(_files.check_file("", folders[0] / f"{name.replace('-', '_')}.py", at_most=MOST_BYTES))
    return list({path.resolve(): path for path in chosen}.values())


def recorded(folder: Path, *, damaged: bool = False) -> list[dict[str, Any]]:
    """What is known of the figures in a folder, in their order; damaged records raise, or with `damaged` are absent."""
    found = []
    for path in (folder / f"{name.replace('_', '-')}.json" for name in ORDER):
        try:
            found += [record(path)] if path.is_file() else []
        except InputError:
            if not damaged:
                raise
    return found


def count(made: Iterable[dict[str, Any]]) -> str:
    """`51 reproduced, 9 differ, 4 cannot be checked`."""
    seen = Counter(one["verdict"] for figure in made for one in figure["checks"])
    words = {"reproduced": "reproduced", "differs": "differ" if seen["differs"] != 1 else "differs"}
    return ", ".join(f"{seen[verdict]} {words.get(verdict, verdict)}" for verdict in VERDICTS.values() if seen[verdict])


def table(made: Sequence[dict[str, Any]]) -> str:
    """All verdicts in Markdown: a row for each check."""
    lines = ["| figure | | published | came out | verdict |", "|---|---|---|---|---|"]
    for figure in made:
        source = f"[{figure['source']}](figures/{figure['name']}.svg)"
        for one in figure["checks"]:
            verdict = f"**{one['verdict']}**" + (f": {one['why']}" if one["why"] else "")
            cells = (source, one["what"], one["published"], one["found"], verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
            source = ""
    return "\n".join(lines) + "\n"


def gallery(made: Sequence[dict[str, Any]]) -> str:
    """The figures in Markdown, the first one over the whole width, the others two in a row."""
    first, others = made[:1], made[1:]
    lines = [f"![{_alone(one['title'])}](figures/{one['name']}.png)\n" for one in first]
    for left in range(0, len(others), 2):
        pair = others[left : left + 2]
        if left == 0:
            lines.append("| | |\n|---|---|")
        cells = (f"![{_alone(one['title'])}](figures/{one['name']}.png)<br>{one['source']}" for one in pair)
        lines.append("| " + " | ".join(cells) + " |" + " |" * (2 - len(pair)))
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text inside a table's cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _alone(title: str) -> str:
    """A title inside a picture's brackets."""
    return _cell(title).replace("[", "(").replace("]", ")")


def in_step(text: str, made: Sequence[dict[str, Any]]) -> str:
    """A README with its generated parts made anew: what stands between `<!-- verdicts -->` and `<!-- end of … -->`."""
    for name, part in (("verdicts", f"{count(made)}.\n\n{table(made)}"), ("gallery", gallery(made))):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin not in text and end not in text:
            continue
        head, _, rest = text.partition(begin)
        if text.count(begin) != 1 or text.count(end) != 1 or end not in rest:
            raise InputError(f"{begin} and {end} must each stand once, in this order, in the README")
        text = f"{head}{begin}\n\n{part}\n{end}{rest.partition(end)[2]}"
    return text
