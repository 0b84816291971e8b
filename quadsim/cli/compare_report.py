"""The results of `compare` and `tune` as sentences and tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quadsim._format import compact, counted, enumerated, factor, ratio, signed_decades
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
MAX_PAIRS = 6  # whose medians change their order, in a sentence
VERSUS = "÷"  # begins the name of the column of paired ratios
OBJECTIVE_WORDS = {"final-loss": "the final loss", "steps-to-tol": "the steps to tol", "mean-log-loss": "the objective"}
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
    from quadsim.comparison.across import failures

    rows = rows_of(result)
    if failed := failures(result):
        return f"{result.problem.capitalize()}: no run has a result, so there is nothing to compare ({_how(failed)})"
    against = next(row for row in rows if row["optimizer"] == result.reference)
    others = [row for row in rows if row["optimizer"] != result.reference]
    steps = f"steps to {result.protocol.tol:g}"
    objectives = {"final-loss": "final loss", "steps-to-tol": steps, "mean-log-loss": "mean log loss"}
    begin = f"{result.problem.capitalize()}, {objectives[result.protocol.objective]}"
    if not others:
        return f"{begin}: {against['label']} alone"
    reference = against["label"] + ("" if against["verdict"] == "–" else f" ({against['verdict']})")
    if against["given"] and not all(row["given"] for row in others):
        reference += " at a given learning rate"
    if all(row["verdict"] == "no difference found" for row in others):
        names = [against["label"], *(row["label"] for row in others)]
        owners = [f"{row['label']} " if len(others) > 1 else "" for row in others]
        intervals = ", ".join(
            owner + _interval(row, result.protocol) for owner, row in zip(owners, others, strict=True)
        )
        return f"{begin}: no difference found between {enumerated(names)} ({intervals})"
    ordered = sorted(others, key=lambda row: math.inf if math.isnan(row["difference"]) else row["difference"])
    parts = [
        _part(row, result.protocol) if row["given"] == against["given"] else f"{row['label']} {_origin(row)}"
        for row in ordered
    ]
    return f"{begin} compared with {reference}: {', '.join(parts)}"


def _origin(row: Row) -> str:
    """In a title, in place of a verdict between a tuned and a given learning rate."""
    return "at a given learning rate" if row["given"] else "at a tuned one"


def _how(failed: dict[str, Counter[str]]) -> str:
    """`GD: 30 diverged; Adam: 28 not reached, 2 diverged`."""
    counts = {label: ", ".join(f"{n} {how}" for how, n in of.most_common()) for label, of in failed.items()}
    return "; ".join(f"{label}: {text}" for label, text in counts.items())


def flip_sentences(comparisons: list[Comparison]) -> list[str]:
    """Where the order of two optimizers flips: a sentence for each pair with verdicts, and one for all others."""
    from quadsim.comparison.across import flips

    found = flips(comparisons)
    lines, others = [], []
    for one in found:
        better, worse = _names(one.better), _names(one.worse)
        if one.tested:
            lines.append(f"the order flips: {one.first} is better than {one.second} on {better}, worse on {worse}")
        else:
            others.append(f"{one.first} ahead on {better}, {one.second} on {worse}")
    if others:
        more = f", and {len(others) - MAX_PAIRS} more pairs" if len(others) > MAX_PAIRS else ""
        listed = "; ".join(others[:MAX_PAIRS])
        lines.append(f"only the medians change their order, without verdicts on both sides: {listed}{more}")
    return lines


def _names(problems: Iterable[str]) -> str:
    return enumerated([problem.capitalize() for problem in problems])


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
    rates = ", given the tuned rates (or others that resampled tuning seeds choose)"
    return (
        f"{100 * result.level:g}% intervals per comparison: order statistics of the paired differences"
        f"{'' if _all_given(result) else rates}; p: two-sided sign test, {family}"
    )


def _all_given(result: Comparison) -> bool:
    return len(result.given) == len(result.summary)


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


def show_comparisons(screen: Any, results: list[Comparison]) -> None:
    """Print the comparisons, the problems on which the order flips, and what the columns mean."""
    shown: dict[str, None] = {}
    for result in results:
        shown |= dict.fromkeys(show_comparison(screen, result))
    for sentence in flip_sentences(results):
        screen.print(sentence[0].upper() + sentence[1:], soft_wrap=True)
    if shown:
        screen.print(f"Columns: {column_notes(shown, results[0].protocol)}", style="dim")


def column_notes(columns: Iterable[str], protocol: EvaluationProtocol) -> str:
    """What the columns of the table mean, for those that are shown."""
    decades, columns = protocol.objective == "mean-log-loss", list(columns)
    versus = next((column for column in columns if column.startswith((VERSUS, "less "))), VERSUS).partition(" (")[0]
    lost = "decades lost" if decades else "factor lost"
    texts = {
        "best lr": "tuned on other draws unless given; lowest or highest: at the edge of the rates tried",
        "median": f"over the draws, of {OBJECTIVE_WORDS[protocol.objective]}; ∞: failed",
        "quartiles": "over the same draws",
        versus: f"median of the paired {'differences' if decades else 'ratios'} to the reference, below "
        f"{'0' if decades else '1'} is better",
        "p (Holm)": "of the sign test, corrected for the number of comparisons",
        "verdict": "better or worse if the corrected p shows it, too few seeds if it could not; otherwise how most "
        "runs failed",
        "wins": "share of draws on which it beats the reference, ties half",
        "diverged": "share of runs whose loss grew by 10¹⁰⁰ or was not finite",
        "underflow": "share of runs that left float64's range, which have no result",
        "lr range": "width of the rates within a factor 2 of the best result",
        "lr/2": f"{lost} at half the best lr, and at twice (2·lr)",
    }
    shown = {versus if column.startswith(f"{versus} (") else column for column in columns}
    return "; ".join(f"{name}: {text}" for name, text in texts.items() if name in shown)


def profile_text(results: list[Comparison]) -> str:
    """What a performance profile shows, and what it does not."""
    of = {"final-loss": "losses", "steps-to-tol": "steps", "mean-log-loss": "mean losses"}[
        results[0].protocol.objective
    ]
    count = sum(len(result.seeds) for result in results)
    over = counted(len(results), "problem")
    return (
        f"share of {count} draws ({over}) on which {of} are within a factor of the best optimizer's on the same "
        "draw; the order of curves below the top one can depend on which optimizers are compared"
    )


def show_profile(screen: Any, rows: list[Row], results: list[Comparison]) -> None:
    """Print the shares of draws on which each optimizer is the best, within factors of it, and solved."""
    names = {"best": "best", "within_2": "within 2×", "within_10": "within 10×", "solved": "solved"}
    cells = [[row["label"], *("–" if row[key] is None else f"{row[key]:.0%}" for key in names)] for row in rows]
    screen.print(table(("optimizer", *names.values()), cells, left=("optimizer",), pad_edge=False))
    screen.print(f"Performance profile: {profile_text(results)}", style="dim")


def show_comparison(screen: Any, result: Comparison) -> list[str]:
    """Print the finding, the table and the notes of one problem; returns the columns shown.

    If every run failed there is no table: its medians would be infinite, its ratios ties.
    """
    from quadsim.comparison.across import failures

    protocol, rows = result.protocol, rows_of(result)
    against = next(row["label"] for row in rows if row["optimizer"] == result.reference)
    screen.print(finding(result), style="bold")
    seeds = f"tuned on seeds {seeds_text(result.tuning_seeds)}, confirmed on {seeds_text(result.seeds)}"
    if _all_given(result):
        seeds = f"given learning rates, on seeds {seeds_text(result.seeds)}"
    screen.print(f"{steps_text(protocol)}; {seeds}; {rows[0]['minimizer']} minimizer")
    if failures(result):
        for row in rows:
            for note in _tuning_notes(row, result.tuned[row["optimizer"]].optimizer, protocol):
                screen.print(note)
        screen.print("")
        return []
    decades = protocol.objective == "mean-log-loss"
    difference = f"{'less' if decades else '÷'} {against} ({100 * result.level:g}% interval)"
    cells = [_cells(row, decades, difference) for row in rows]
    all_zero = {column for column in ("diverged", "underflow") if all(row[column] == "0%" for row in cells)}
    first, last = [{"lr/2", "2·lr"}, {"lr range"}, {"quartiles"}], [{"settings"}, {"median"}, {"best lr"}, {"p (Holm)"}]
    shown = _print_table(screen, cells, spare=[*first, all_zero, {"wins"}, *last])
    for note in (*([method(result)] if result.comparisons else []), *notes(result), ""):
        screen.print(note)
    return shown


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


def _print_table(screen: Any, rows: list[Cells], *, spare: list[set[str]]) -> list[str]:
    """Print the table without empty columns; if it is too wide, without the spare ones, set by set.

    Returns the columns shown.
    """
    from rich.cells import cell_len

    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    widths = {column: max(cell_len(text) for text in (column, *(row[column] for row in rows))) for column in columns}
    for dropped in spare:
        if sum(widths[column] + 3 for column in columns) > screen.width:
            columns = [column for column in columns if column not in dropped]
    cells = [[row[column] for column in columns] for row in rows]
    left = ("problem", "optimizer", "verdict", "settings")
    screen.print(table(columns, cells, left=left, wrap=columns, pad_edge=False))
    return columns
