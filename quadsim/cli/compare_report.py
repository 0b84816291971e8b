"""The results of `compare` and `tune` as sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from quadsim._format import compact, factor, ratio, signed_decades
from quadsim.cli.console import table
from quadsim.cli.outputs import seeds_text

if TYPE_CHECKING:
    from quadsim.comparison.evaluation import EvaluationProtocol
    from quadsim.comparison.paired import Comparison
    from quadsim.comparison.tuning import Tuned
    from quadsim.optimizers import Optimizer
    from quadsim.problems.block_quadratic import BlockQuadratic

NOTE = "crosses: diverged, underflowed, tol not reached, or above the panel; open circle: best at the edge of the grid"
MIN_RESOLVED_LOSS = 2.0**-104  # eps², relative to the first loss: float64 weights do not resolve smaller losses
Row = dict[Any, Any]
Cells = dict[str, str]


def rows_of(result: Comparison) -> list[Row]:
    """The rows of the summary, with None instead of NaN for an absent "edge" or "failed"."""
    return [
        {**row, **{key: getattr(result.tuned[row["optimizer"]], key) for key in ("edge", "failed")}}
        for row in result.summary.to_dict("records")
    ]


def finding(result: Comparison) -> str:
    """The result in one sentence, without full stop."""
    rows = rows_of(result)
    against = next(row for row in rows if row["optimizer"] == result.reference)
    others = [row for row in rows if row["optimizer"] != result.reference]
    steps = f"steps to {result.protocol.tol:g}"
    objectives = {"final-loss": "final loss", "steps-to-tol": steps, "mean-log-loss": "mean log loss"}
    begin = f"{result.problem.capitalize()}, {objectives[result.protocol.objective]}"
    if not others:
        return f"{begin}: {against['label']} alone"
    failed = "" if against["verdict"] == "–" else f" ({against['verdict']})"
    if all(row["verdict"] == "no difference found" for row in others):
        names = [against["label"], *(row["label"] for row in others)]
        owners = [f"{row['label']} " if len(others) > 1 else "" for row in others]
        intervals = ", ".join(
            owner + _interval(row, result.protocol) for owner, row in zip(owners, others, strict=True)
        )
        return f"{begin}: no difference found between {', '.join(names[:-1])} and {names[-1]} ({intervals})"
    ordered = sorted(others, key=lambda row: math.inf if math.isnan(row["difference"]) else row["difference"])
    parts = [_part(row, result.protocol) for row in ordered]
    return f"{begin} compared with {against['label']}{failed}: {', '.join(parts)}"


def _interval(row: Row, protocol: EvaluationProtocol) -> str:
    """`0.95–1.2×`: the interval of the difference; decades with their signs for "mean-log-loss"."""
    decades = protocol.objective == "mean-log-loss"
    return _ends(row, decades) + (" decades" if decades else "×")


def _ends(row: Row, decades: bool) -> str:
    text, to = (signed_decades, " to ") if decades else (ratio, "–")
    return f"{text(row['low'])}{to}{text(row['high'])}"


def _part(row: Row, protocol: EvaluationProtocol) -> str:
    if row["verdict"] == "no difference found":
        return f"{row['label']} no difference found ({_interval(row, protocol)})"
    if row["verdict"] not in ("better", "worse") or math.isinf(row["difference"]):
        return f"{row['label']} {row['verdict']}"
    better = row["verdict"] == "better"
    if protocol.objective == "mean-log-loss":
        return f"{row['label']} {abs(row['difference']):.2g} decades {'lower' if better else 'higher'}"
    less, more = ("fewer", "more") if protocol.objective == "steps-to-tol" else ("lower", "higher")
    return f"{row['label']} {factor(abs(row['difference']))} {less if better else more}"


def method(result: Comparison) -> str:
    """How intervals and verdicts are computed, in one sentence without full stop."""
    count = result.comparisons
    family = "1 comparison" if count == 1 else f"Holm over {count} comparisons"
    return (
        f"{100 * result.level:g}% intervals per comparison: order statistics of the paired differences, given the "
        f"tuned rates (or others that resampled tuning seeds choose); p: two-sided sign test, {family}"
    )


def notes(result: Comparison) -> Iterator[str]:
    """Warnings below the table."""
    from quadsim.comparison.statistics import min_items

    starts = result.bands[result.bands["step"] == 0].set_index("optimizer")["median"]
    needed = min_items(result.level, max(result.comparisons, 1))
    if result.comparisons and len(result.seeds) < needed:
        among = "" if result.comparisons == 1 else f" among {result.comparisons} comparisons"
        seeds = f"with {len(result.seeds)} seeds: give {needed}"
        yield f"no difference can be shown{among} at level {result.level:g} {seeds}"
    for row in rows_of(result):
        best = result.tuned[row["optimizer"]]
        yield from _tuning_notes(row, best.optimizer, result.protocol)
        if row["verdict"] == "no difference found" and (row["low"] > 0 or row["high"] < 0):
            slack = (result.tuned[result.reference] if row["high"] < 0 else best).slack
            makes_up = row["high"] + slack >= 0 if row["high"] < 0 else row["low"] - slack <= 0
            why = f"but {result.comparisons} comparisons raise p from {row['p']:.2g} to {row['p_adjusted']:.2g}"
            if makes_up:
                why = f"which a finer lr grid might make up for (by up to {factor(slack)})"
            yield f"{row['label']}: differs by {factor(abs(row['difference']))}, {why}"
        if row["rose"] > row["diverged"] and row["rose"] >= 0.1:
            yield f"{row['label']}: {row['rose']:.0%} of its runs ended above their start, at the edge of stability"
        if row["underflow"] > 0:
            runs = f"{row['underflow']:.0%} of its runs left float64's range"
            yield f"{row['label']}: {runs}, where losses are not valid; their pairs are undecided"
        if result.protocol.objective == "final-loss" and row["median"] < MIN_RESOLVED_LOSS * starts[row["optimizer"]]:
            yield f"{row['label']}: its median loss is below 10⁻³¹ of its start, which float64 weights do not resolve"


def _tuning_notes(row: Row, optimizer: Optimizer, protocol: EvaluationProtocol) -> Iterator[str]:
    name = row["label"]
    if row["failed"]:
        missed = f"missed tol within {protocol.max_steps:,} steps, diverged or underflowed"
        how = {"diverged": "diverged", "underflow": "underflowed"}.get(row["failed"], missed)
        yield f"{name}: every learning rate tried {how} on half of the tuning seeds or more"
    elif row["edge"]:
        way = "smaller" if row["edge"] == "lowest" else "larger"
        yield f"{name}: the best lr is the {row['edge']} one tried, and a {way} one may be better"
    if row["factor"]:
        rates = "/".join(f"{rate:.3g}" for rate in optimizer.lr)  # type: ignore[union-attr]
        yield f"{name}: its lr is a factor on the best learning rates of the blocks; here {rates}"


def show_comparison(screen: Any, result: Comparison) -> None:
    """Print the finding, the table and the notes of one problem."""
    protocol, rows = result.protocol, rows_of(result)
    against = next(row["label"] for row in rows if row["optimizer"] == result.reference)
    screen.print(finding(result), style="bold")
    seeds = f"tuned on seeds {seeds_text(result.tuning_seeds)}, confirmed on {seeds_text(result.seeds)}"
    screen.print(f"{steps_text(protocol)}; {seeds}; {rows[0]['minimizer']} minimizer")
    decades = protocol.objective == "mean-log-loss"
    difference = f"{'less' if decades else '÷'} {against} ({100 * result.level:g}% interval)"
    cells = [_cells(row, decades, difference) for row in rows]
    all_zero = {column for column in ("diverged", "underflow") if all(row[column] == "0%" for row in cells)}
    first, last = [{"lr/2", "2·lr"}, {"lr range"}, {"quartiles"}], [{"settings"}, {"median"}, {"best lr"}, {"p (Holm)"}]
    _print_table(screen, cells, spare=[*first, all_zero, {"wins"}, *last])
    for note in (*([method(result)] if result.comparisons else []), *notes(result), ""):
        screen.print(note)


def show_tuned(screen: Any, rows: list[Row], tuned: list[Tuned], protocol: EvaluationProtocol) -> None:
    """Print the table of tuned settings and its notes."""
    decades = protocol.objective == "mean-log-loss"
    screen.print(steps_text(protocol))
    cells = []
    for row in rows:
        common = _cells({"against": None, "given": False, "verdict": "", **row}, decades, "")
        cells.append({"problem": row["problem"], **common, "tried": str(row["tried"])})
    _print_table(screen, cells, spare=[{"tried"}, {"lr/2", "2·lr"}, {"quartiles"}])
    for row, best in zip(rows, tuned, strict=True):
        for note in _tuning_notes(row, best.optimizer, protocol):
            screen.print(f"{row['problem']}, {note}")


def tuned_row(problem: BlockQuadratic, name: str, optimizer: Optimizer, best: Tuned) -> dict[str, Any]:
    """The tuned settings of one optimizer, as a row of a table."""
    others = ", ".join(f"{key}={value}" for key, value in best.settings.items() if key != "lr")
    top = best.tried[best.tried["best"]].iloc[0]
    decades = best.objective == "mean-log-loss"
    return {
        "problem": problem.name,
        "minimizer": problem.minimizer_kind,
        "optimizer": name,
        "label": optimizer.label,
        "lr": best.settings["lr"],
        "settings": others,
        **{key: getattr(best, key) for key in ("edge", "failed", "factor")},
        "tried": len(best.tried),
        **{key: float(top[key]) if decades else 10.0 ** top[key] for key in ("lower", "median", "upper")},
        **{key: float(top[key]) for key in ("diverged", "underflow")},
        "slack": best.slack,
        **best.sensitivity(),
    }


def lr_text(row: Row) -> str:
    """The learning rate, marked if it is a factor or at the edge of the grid."""
    if row["failed"]:
        return "–"
    lr = row["lr"] if isinstance(row["lr"], str) else f"{'×' if row['factor'] else ''}{row['lr']:.3g}"
    return f"{lr} {row['edge']}" if row["edge"] else lr


def lr_scale_note(rows: list[Row]) -> str:
    names = dict.fromkeys(row["label"] for row in rows if row["factor"])
    return f"; the lr of {', '.join(names)} is a factor on its best known ones" if names else ""


def steps_text(protocol: EvaluationProtocol) -> str:
    """The objective as text."""
    if protocol.objective == "steps-to-tol":
        return f"steps to {protocol.tol:g} of the first gradient norm, {protocol.max_steps:,} at most"
    if protocol.objective == "mean-log-loss":
        return f"mean of log10 L/L0 over {protocol.max_steps:,} steps"
    return f"final loss after {protocol.max_steps:,} steps"


def _cells(row: Row, decades: bool, difference: str) -> Cells:
    """The cells of a row by column, in order; those of a comparison are empty if there is none."""
    text = signed_decades if decades else ratio
    to = " to " if decades else "–"
    paired = isinstance(row["against"], str)
    interval = f" ({_ends(row, decades)})" if paired and not math.isnan(row["low"]) else ""
    cells = {
        "optimizer": row["label"],
        "best lr": lr_text(row) + (" given" if row["given"] else ""),
        "settings": row["settings"],
        "median": compact(row["median"]),
        "quartiles": f"{compact(row['lower'])}{to}{compact(row['upper'])}",
        difference: text(row["difference"]) + interval if paired else "",
        "p (Holm)": f"{row['p_adjusted']:.2g}" if paired else "",
        "verdict": row["verdict"],
        "wins": f"{row['wins']:.0%}" if paired else "",
        "diverged": f"{row['diverged']:.0%}",
        "underflow": f"{row['underflow']:.0%}",
        "lr range": "",
    }
    if _is_number(row["lr_range"]):
        cells["lr range"] = f"{'> ' if row['lr_range_open'] else ''}×{row['lr_range']:.2g}"
    for key, column in (("halved", "lr/2"), ("doubled", "2·lr")):
        times = "×" if not decades and _is_number(row[key]) and math.isfinite(row[key]) else ""
        cells[column] = times + text(row[key]) if _is_number(row[key]) else ""
    return cells


def _is_number(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _print_table(screen: Any, rows: list[Cells], *, spare: list[set[str]]) -> None:
    """Print the table without empty columns; if it is too wide, without the spare ones, set by set."""
    from rich.cells import cell_len

    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    widths = {column: max(cell_len(text) for text in (column, *(row[column] for row in rows))) for column in columns}
    for dropped in spare:
        if sum(widths[column] + 3 for column in columns) > screen.width:
            columns = [column for column in columns if column not in dropped]
    cells = [[row[column] for column in columns] for row in rows]
    left = ("problem", "optimizer", "verdict", "settings")
    screen.print(table(columns, cells, left=left, wrap=columns, pad_edge=False))
