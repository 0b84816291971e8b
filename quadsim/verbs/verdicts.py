"""What `compare` and `tune` found, in words and tables for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadsim.comparison import Comparison
    from quadsim.objectives import Terms
    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.tuning import Tuned

NOTE = "crosses: diverged, underflowed, tol not reached, or above the panel; open circle: best at the edge of the grid"
RESOLVED = 2.0**-104  # eps²: losses below this share of the first one are of errors that float64 weights do not resolve
Row = dict[Any, Any]
Cells = dict[str, str]


def rows_of(one: Comparison) -> list[Row]:
    """The summary's rows; what is absent beside text is None, where a table would have NaN."""
    absent = ("edge", "failed")
    return [
        {**row, **{key: getattr(one.tuned[row["optimizer"]], key) for key in absent}}
        for row in one.summary.to_dict("records")
    ]


def finding(one: Comparison) -> str:
    """What the comparison found, in one sentence without its full stop."""
    rows = rows_of(one)
    against = next(row for row in rows if row["optimizer"] == one.reference)
    others = [row for row in rows if row["optimizer"] != one.reference]
    what = {"final-loss": "final loss", "steps-to-tol": f"steps to {one.terms.tol:g}"}.get(
        one.terms.objective, "mean log loss"
    )
    begin = f"{one.problem.capitalize()}, {what}"
    if not others:
        return f"{begin}: {against['label']} alone"
    told = "" if against["verdict"] == "–" else f" ({against['verdict']})"
    if all(row["verdict"] == "no difference found" for row in others):
        names = [against["label"], *(row["label"] for row in others)]
        spans = ", ".join((f"{row['label']} " if len(others) > 1 else "") + _span_text(row, one) for row in others)
        return f"{begin}: no difference found between {', '.join(names[:-1])} and {names[-1]} ({spans})"
    ordered = sorted(others, key=lambda row: math.inf if math.isnan(row["difference"]) else row["difference"])
    parts = [_part(row, one) for row in ordered]
    return f"{begin} beside {against['label']}{told}: {', '.join(parts)}"


def _span_text(row: Row, one: Comparison) -> str:
    """`0.95–1.2×`: the interval of the difference; decades with their signs for "mean-log-loss"."""
    decades = one.terms.objective == "mean-log-loss"
    low, high = (_ratio(row[end], decades) for end in ("low", "high"))
    return f"{low} to {high} decades" if decades else f"{low}–{high}×"


def _part(row: Row, one: Comparison) -> str:
    terms = one.terms
    if row["verdict"] == "no difference found":
        return f"{row['label']} no difference found ({_span_text(row, one)})"
    if row["verdict"] not in ("better", "worse"):
        return f"{row['label']} {row['verdict']}"
    better = row["verdict"] == "better"
    if math.isinf(row["difference"]):
        return f"{row['label']} {row['verdict']}"
    if terms.objective == "mean-log-loss":
        return f"{row['label']} {abs(row['difference']):.2g} decades {'lower' if better else 'higher'}"
    words = ("fewer", "more") if terms.objective == "steps-to-tol" else ("lower", "higher")
    return f"{row['label']} {factor(abs(row['difference']))} {words[0] if better else words[1]}"


def method(one: Comparison) -> str:
    """How intervals and verdicts are made, in one sentence without its full stop."""
    count = one.comparisons
    family = "1 comparison" if count == 1 else f"Holm over {count} comparisons"
    return (
        f"{100 * one.level:g}% intervals per comparison: order statistics of the paired differences, given the tuned "
        f"rates (or others that resampled tuning seeds choose); p: two-sided sign test, {family}"
    )


def notes(one: Comparison) -> Iterator[str]:
    """What a reader of the table must know beside it."""
    from quadsim.bootstrap import fewest

    starts = one.bands[one.bands["step"] == 0].set_index("optimizer")["median"]
    needed = fewest(one.level, max(one.comparisons, 1))
    if one.comparisons and len(one.seeds) < needed:
        among = "" if one.comparisons == 1 else f" among {one.comparisons} comparisons"
        yield f"no difference can be shown{among} at level {one.level:g} with {len(one.seeds)} seeds: give {needed}"
    for row in rows_of(one):
        best = one.tuned[row["optimizer"]]
        yield from _tuning_notes(row, best.optimizer, one.terms)
        if row["verdict"] == "no difference found" and (row["low"] > 0 or row["high"] < 0):
            slack = (one.tuned[one.reference] if row["high"] < 0 else best).slack
            makes_up = row["high"] + slack >= 0 if row["high"] < 0 else row["low"] - slack <= 0
            why = (
                f"which a finer lr grid might make up for (by up to {factor(slack)})"
                if makes_up
                else f"but {one.comparisons} comparisons raise p from {row['p']:.2g} to {row['p_adjusted']:.2g}"
            )
            yield f"{row['label']}: differs by {factor(abs(row['difference']))}, {why}"
        if row["rose"] > row["diverged"] and row["rose"] >= 0.1:
            yield f"{row['label']}: {row['rose']:.0%} of its runs ended above their start, at the edge of stability"
        if row["underflow"] > 0:
            yield (
                f"{row['label']}: {row['underflow']:.0%} of its runs left float64's range, where a loss says nothing; "
                "their pairs are undecided"
            )
        if one.terms.objective == "final-loss" and row["median"] < RESOLVED * starts[row["optimizer"]]:
            yield f"{row['label']}: its median loss is below 10⁻³¹ of its start, which float64 weights do not resolve"


def _tuning_notes(row: Row, optimizer: Optimizer, terms: Terms) -> Iterator[str]:
    name = row["label"]
    if row["failed"]:
        missed = f"missed tol within {terms.steps:,} steps, diverged or underflowed"
        how = {"diverged": "diverged", "underflow": "underflowed"}.get(row["failed"], missed)
        yield f"{name}: every learning rate tried {how} on half of the tuning seeds or more"
    elif row["edge"]:
        way = "smaller" if row["edge"] == "lowest" else "larger"
        yield f"{name}: the best lr is the {row['edge']} one tried, and a {way} one may be better"
    if row["factor"]:
        rates = "/".join(f"{rate:.3g}" for rate in optimizer.lr)  # type: ignore[union-attr]
        yield f"{name}: its lr is a factor on the best known ones of the blocks; here {rates}"


def show_comparison(screen: Any, one: Comparison) -> None:
    """One problem's finding, its table and what must be known beside it."""
    terms, rows = one.terms, rows_of(one)
    against = next(row["label"] for row in rows if row["optimizer"] == one.reference)
    screen.print(finding(one), style="bold", highlight=False)
    screen.print(
        f"{steps_text(terms)}; tuned on seeds {_span(one.tuning_seeds)}, confirmed on {_span(one.seeds)}; "
        f"{rows[0]['minimizer']} minimizer",
        highlight=False,
    )
    decades = terms.objective == "mean-log-loss"
    difference = f"{'less' if decades else '÷'} {against} ({100 * one.level:g}% interval)"
    columns = ["optimizer", "best lr", "settings", "median", "quartiles", difference, "p (Holm)", "verdict", "wins",
               "diverged", "underflow", "lr range", "lr/2", "2·lr"]  # fmt: skip
    cells = [_cells(row, decades, difference) for row in rows]
    never = {column for column in ("diverged", "underflow") if all(row[column] == "0%" for row in cells)}
    spare = [{"lr/2", "2·lr"}, {"lr range"}, {"quartiles"}, never, {"wins"}, {"settings"}, {"median"}, {"best lr"},
             {"p (Holm)"}]  # fmt: skip
    _print_table(screen, columns, cells, spare)
    if one.comparisons:
        screen.print(method(one), highlight=False)
    for note in notes(one):
        screen.print(note, highlight=False)
    screen.print()


def show_tuned(screen: Any, rows: list[Row], found: list[Tuned], terms: Terms) -> None:
    """What was tuned, and what must be known beside it."""
    decades = terms.objective == "mean-log-loss"
    screen.print(steps_text(terms), highlight=False)
    columns = ["problem", "optimizer", "best lr", "settings", "median", "quartiles", "diverged", "underflow",
               "lr range", "lr/2", "2·lr", "tried"]  # fmt: skip
    cells = [
        {**_cells(row, decades, ""), "problem": row["problem"], "tried": str(row["tried"])}
        for row in ({"against": None, "given": False, "verdict": "", **row} for row in rows)
    ]
    _print_table(screen, columns, cells, [{"tried"}, {"lr/2", "2·lr"}, {"quartiles"}])
    for row, best in zip(rows, found, strict=True):
        for note in _tuning_notes(row, best.optimizer, terms):
            screen.print(f"{row['problem']}, {note}", highlight=False)


def tuned_row(problem: BlockQuadratic, name: str, optimizer: Optimizer, best: Tuned) -> dict[str, Any]:
    """What was found for one optimizer, as a row of a table."""
    others = ", ".join(f"{key}={value}" for key, value in best.settings.items() if key != "lr")
    top = best.tried[best.tried["best"]].iloc[0]
    scale: Callable[[float], float] = float if best.objective == "mean-log-loss" else lambda value: 10.0**value
    quartiles = {key: scale(top[key]) for key in ("lower", "median", "upper")}
    return {
        "problem": problem.name, "minimizer": problem.minimizer_kind, "optimizer": name, "label": optimizer.label,
        "lr": best.settings["lr"], "settings": others, "edge": best.edge, "failed": best.failed,
        "factor": best.factor, "tried": len(best.tried), **quartiles,
        "diverged": float(top["diverged"]), "underflow": float(top["underflow"]), "slack": best.slack,
        **best.sensitivity(),
    }  # fmt: skip


def plain(row: Row) -> dict[str, Any]:
    """The row with None for what is absent or infinite, and Python's own numbers."""
    found = {}
    for key, value in row.items():
        value = value.item() if hasattr(value, "item") else value
        found[str(key)] = None if isinstance(value, float) and not math.isfinite(value) else value
    return found


def lr_text(row: Row) -> str:
    """The learning rate with what must be said of it."""
    if row["failed"]:
        return "–"
    shown = row["lr"] if isinstance(row["lr"], str) else f"{'×' if row['factor'] else ''}{row['lr']:.3g}"
    return shown + {"lowest": " lowest", "highest": " highest"}.get(row["edge"], "")


def steps_text(terms: Terms) -> str:
    """The objective in words."""
    if terms.objective == "steps-to-tol":
        return f"steps to {terms.tol:g} of the first gradient norm, {terms.steps:,} at most"
    if terms.objective == "mean-log-loss":
        return f"mean of log10 L/L0 over {terms.steps:,} steps"
    return f"final loss after {terms.steps:,} steps"


def factor(decades: float) -> str:
    """`1.04×`, `2.3×`, `140×`, `10¹⁹×`."""
    if decades < 1:
        return f"{10**decades:.3g}×" if decades < math.log10(1.1) else f"{10**decades:.2g}×"
    if decades < 4:
        return f"{float(f'{10**decades:.2g}'):,.0f}×"
    return "10" + str(round(decades)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) + "×"


def _cells(row: Row, decades: bool, difference: str) -> Cells:
    absent = not isinstance(row["against"], str)
    to = " to " if decades else "–"
    span = ""
    if not absent and not math.isnan(row["low"]):
        span = f" ({_ratio(row['low'], decades)}{to}{_ratio(row['high'], decades)})"
    cells = {
        "optimizer": row["label"],
        "best lr": lr_text(row) + (" given" if row["given"] else ""),
        "settings": row["settings"],
        "median": _number(row["median"]),
        "quartiles": f"{_number(row['lower'])}{to}{_number(row['upper'])}",
        difference: "" if absent else f"{_ratio(row['difference'], decades)}{span}",
        "p (Holm)": "" if absent else f"{row['p_adjusted']:.2g}",
        "verdict": row["verdict"],
        "wins": "" if absent else f"{row['wins']:.0%}",
        "diverged": f"{row['diverged']:.0%}",
        "underflow": f"{row['underflow']:.0%}",
        "lr range": "",
    }
    if row["lr_range"] and not math.isnan(row["lr_range"]):
        cells["lr range"] = f"{'> ' if row['lr_range_open'] else ''}×{row['lr_range']:.2g}"
    for key, column in (("halved", "lr/2"), ("doubled", "2·lr")):
        value = row[key]
        cells[column] = "" if value is None or math.isnan(value) else _ratio(value, decades, "×")
    return cells


def _print_table(screen: Any, columns: list[str], rows: list[Cells], spare: list[set[str]]) -> None:
    """The table, without columns that are empty, and without those to spare if it would be too wide."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table

    columns = [column for column in columns if any(row[column] for row in rows)]
    widths = {column: max(cell_len(text) for text in (column, *(row[column] for row in rows))) for column in columns}
    for few in spare:
        if sum(widths[kept] + 3 for kept in columns) > screen.width:
            columns = [column for column in columns if column not in few]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        left = column in ("problem", "optimizer", "verdict", "settings")
        table.add_column(column, justify="left" if left else "right")
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    screen.print(table, highlight=False)


def _span(seeds: list[int]) -> str:
    whole = seeds == list(range(seeds[0], seeds[-1] + 1))
    if whole and len(seeds) > 1:
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds[:12])) + (", …" if len(seeds) > 12 else "")


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.2g}"


def _ratio(decades: float, as_decades: bool, sign: str = "") -> str:
    """A difference as people read it: a ratio, or decades with their sign."""
    if math.isnan(decades):
        return "–"
    if as_decades:
        return f"{decades:+.2g}" if math.isfinite(decades) else ("∞" if decades > 0 else "−∞")
    if math.isinf(decades):
        return "∞" if decades > 0 else "0"
    return sign + (f"{10**decades:.3g}" if abs(decades) < math.log10(1.1) else f"{10**decades:.2g}")
