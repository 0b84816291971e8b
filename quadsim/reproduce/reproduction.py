"""A published figure, recomputed and checked: the published result beside the measured one, and a verdict.

Each script in experiments/ ends with one `Reproduction`: how to measure, what to check in the resulting tables, how to
draw them. Checks see the tables only, so a verdict is a function of the data that is stored beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim import _artifacts
from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError
from quadsim.reproduce.records import VERDICTS, Record, read_record

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Tables = dict[str, "pd.DataFrame"]  # by the suffix of the file: "" and, say, "-draws"


@dataclass(frozen=True)
class Check:
    """One published statement beside the measured result.

    Parameters
    ----------
    what :
        The quantity that is compared, in a few words.
    published, measured :
        The two results, short, with their numbers.
    holds :
        Whether they agree; None where that cannot be decided.
    why :
        The reason, if they do not agree.
    """

    what: str
    published: str
    measured: str
    holds: bool | None
    why: str = ""

    def __post_init__(self) -> None:
        for name in ("what", "published", "measured", "why"):
            if not isinstance(getattr(self, name), str):
                raise InputTypeError(f"{name} of a check must be text, got {checks.shown(getattr(self, name))}")
        if self.holds is not None and type(self.holds).__name__ not in ("bool", "bool_"):  # bool_: numpy's
            raise InputTypeError(f"holds of “{self.what}” must be True, False or None, got {checks.shown(self.holds)}")

    @property
    def verdict(self) -> str:
        return VERDICTS[self.holds if self.holds is None else bool(self.holds)]

    def row(self) -> dict[str, str]:
        """The check as text; a reason is given only where the verdict is not "reproduced"."""
        texts = {key: text for key, text in asdict(self).items() if key != "holds"}
        return {**texts, "why": "" if self.holds else self.why or "not explained", "verdict": self.verdict}


@dataclass(frozen=True)
class Reproduction:
    """A published figure and how to recompute it.

    Parameters
    ----------
    name :
        The stem of its files.
    source :
        The publication and its figure: "Zhang et al., figure 3".
    arxiv :
        The arXiv number of the publication, if it has one.
    measure :
        fast → tables. ``fast`` asks for the fewest draws that give the same verdicts.
    check :
        tables → checks.
    draw :
        tables → the figure, whose title states the result.
    order :
        The position in tables and galleries: low numbers first.
    slow :
        Whether it takes much longer than the others; slow scripts are started first.
    on_request :
        Whether it takes so long that it is measured with ``measure=true`` only; otherwise the recorded tables are used.
    """

    name: str
    source: str
    measure: Callable[[bool], Tables]
    check: Callable[[Tables], Sequence[Check]]
    draw: Callable[[Tables], Figure]
    arxiv: str = ""
    order: int = 1000
    slow: bool = False
    on_request: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise InputError(
                f"{checks.shown(self.name)} is not a valid name of files: use lower-case letters, digits and dashes"
            )

    def make(
        self,
        folder: Path,
        command: str,
        *,
        fast: bool = False,
        redraw: bool = False,
        measure: bool = False,
        recorded: Path | None = None,
    ) -> Record:
        """Measure, check, draw and write; returns the record.

        ``redraw``: use the tables in the folder. A script that is measured ``on_request`` uses those in ``recorded``
        unless ``measure`` is true.
        """
        source = folder if redraw else recorded if self.on_request and not measure else None
        if source and not redraw and not (source / f"{self.name}.json").is_file():
            raise InputError(f"{self.name} has no recorded tables in {source}: measure it with measure=true")
        tables, previous = self.read(source) if source else (self.measure(fast), {"fast": fast})
        figure, rows = self.draw(tables), [check.row() for check in self.check(tables)]
        title = " ".join(figure.get_suptitle().split())
        if not title or not rows:
            raise InputError(f"{self.name} has no {'checks' if title else 'title'}")
        record = {
            "name": self.name,
            "source": self.source,
            "arxiv": self.arxiv,
            "order": self.order,
            "title": title,
            "caption": " ".join(figure.get_supxlabel().split()),
            "command": f"{command} measure=true" if self.on_request else command,
            "fast": previous["fast"],
            "tables": list(tables),
            "checks": rows,
            "versions": previous.get("versions") or _artifacts.versions(),
        }
        unchanged = source is not None and source.resolve() == folder.resolve()
        _artifacts.write(folder, self.name, figure, {} if unchanged else tables, record)
        return record

    def read(self, folder: Path) -> tuple[Tables, Record]:
        """The tables and the record in a folder."""
        from quadsim.engine.table import read_csv

        record = read_record(folder / f"{self.name}.json")
        tables = {}
        for suffix in record["tables"]:
            path = folder / f"{self.name}{suffix}.csv"
            try:
                tables[suffix] = read_csv(path)
            except (OSError, ValueError) as error:  # ValueError: not a table, by pandas
                reason = getattr(error, "strerror", None) or " ".join(str(error).split())
                raise InputError(f"{path} cannot be read ({reason}): recompute it, without redraw=true") from None
        return tables, record
