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

    Examples
    --------
    >>> from quadsim.reproduce import Check
    >>> Check("GD's slope", "0.9996", "0.9996", holds=True).verdict
    'reproduced'
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
        """The verdict in words: "reproduced", "differs" or "cannot be checked"."""
        return VERDICTS[self.holds if self.holds is None else bool(self.holds)]

    def row(self) -> dict[str, str]:
        """The check as text.

        Returns
        -------
        dict
            A reason is given only where the verdict is not "reproduced".

        Examples
        --------
        >>> from quadsim.reproduce import Check
        >>> Check("steps", "5 times", "285 times", holds=False, why="the bound is loose").row()["verdict"]
        'differs'
        """
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

    Examples
    --------
    >>> import pandas as pd
    >>> from quadsim.reproduce import Check, Reproduction
    >>> def measure(fast):
    ...     return {"": pd.DataFrame({"kappa": [qs.case(3).kappa]})}
    >>> def check(tables):
    ...     return [Check("κ", "5000", f"{tables['']['kappa'][0]:g}", tables[""]["kappa"][0] == 5000)]
    >>> def draw(tables):
    ...     with qs.plots.canvas(title="κ is 5000") as (figure, (axes,)):
    ...         _ = axes.plot(tables[""]["kappa"])
    ...     return figure
    >>> Reproduction("kappa-of-case-3", "An example", measure, check, draw).name
    'kappa-of-case-3'
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
        """Measure, check, draw and write.

        Parameters
        ----------
        folder : Path
            Where the figure, its tables and its record are written.
        command : str
            The command line that repeats it, for the record.
        fast : bool
            Use the fewest draws that give the same verdicts.
        redraw : bool
            Use the tables in the folder.
        measure : bool
            Measure a figure that is measured ``on_request``; otherwise its tables are those in ``recorded``.
        recorded : Path, optional
            The folder of recorded tables.

        Returns
        -------
        dict
            The record.

        Examples
        --------
        >>> import pandas as pd
        >>> from pathlib import Path
        >>> from quadsim.reproduce import Check, Reproduction
        >>> def draw(tables):
        ...     with qs.plots.canvas(title="κ is 5000") as (figure, (axes,)):
        ...         _ = axes.plot(tables[""]["kappa"])
        ...     return figure
        >>> tables = {"": pd.DataFrame({"kappa": [5000.0]})}
        >>> checks = [Check("κ", "5000", "5000", True)]
        >>> example = Reproduction("kappa", "An example", lambda fast: tables, lambda tables: checks, draw)
        >>> record = example.make(Path("."), "python kappa.py")
        >>> record["checks"][0]["verdict"], Path("kappa.csv").exists()
        ('reproduced', True)
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
        """The tables and the record in a folder.

        Parameters
        ----------
        folder : Path

        Returns
        -------
        tables : dict of DataFrame
            By the suffix of their file.
        record : dict

        Examples
        --------
        >>> import pandas as pd
        >>> from pathlib import Path
        >>> from quadsim.reproduce import Check, Reproduction
        >>> def draw(tables):
        ...     with qs.plots.canvas(title="κ is 5000") as (figure, (axes,)):
        ...         _ = axes.plot(tables[""]["kappa"])
        ...     return figure
        >>> tables = {"": pd.DataFrame({"kappa": [5000.0]})}
        >>> checks = [Check("κ", "5000", "5000", True)]
        >>> example = Reproduction("kappa", "An example", lambda fast: tables, lambda tables: checks, draw)
        >>> record = example.make(Path("."), "python kappa.py")
        >>> tables, record = example.read(Path("."))
        >>> tables[""]["kappa"].tolist(), record["title"]
        ([5000.0], 'κ is 5000')
        """
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
