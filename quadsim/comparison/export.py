"""The results of comparisons as a LaTeX table (booktabs) and as Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quadsim._format import counted, tuned_or_given
from quadsim._validation import InputError, InputTypeError, shown
from quadsim.comparison.across import failures

if TYPE_CHECKING:
    from quadsim.comparison.evaluation import EvaluationProtocol
    from quadsim.comparison.paired import Comparison

DIGITS = 2  # significant digits of results
LR_DIGITS = 3
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e6  # numbers outside this range are written with a power of ten
Item = tuple[str, Any]  # ("text", str), ("number", float, digits) or ("join", items)
LATEX_LETTERS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': r"''",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "η": r"$\eta$",
    "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "ω": r"$\omega$", "Λ": r"$\Lambda$", "Δ": r"$\Delta$", "Σ": r"$\Sigma$", "×": r"$\times$", "÷": r"$\div$",
    "·": r"$\cdot$", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$", "∞": r"$\infty$", "−": r"$-$",
    "→": r"$\to$", "√": r"$\surd$", "‖": r"$\|$", "′": r"$'$", "–": "--", "—": "---", "…": r"\ldots{}",
    "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": "~",
    **{letter: f"$_{{{digit}}}$" for digit, letter in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{letter: f"$^{{{digit}}}$" for digit, letter in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}, "⁻": r"$^{-}$",
}  # fmt: skip
MARKDOWN_SPECIAL = "\\`*_{}[]<>#|~$"
RESULTS = {"final-loss": "Final loss", "steps-to-tol": "Steps to tolerance", "mean-log-loss": "Mean log10 loss"}


def to_latex(comparisons: Sequence[Comparison]) -> str:
    """A LaTeX table of comparisons; it requires the package booktabs and nothing else."""
    head, groups = _table(comparisons)
    lines = [f"% {line}" for line in (*_notes(comparisons), r"requires \usepackage{booktabs}")]
    lines += [rf"\begin{{tabular}}{{{_alignment(head)}}}", r"\toprule", _latex_row([("text", name) for name in head])]
    for number, rows in enumerate(groups):
        lines += [r"\addlinespace" if number else r"\midrule", *map(_latex_row, rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_markdown(comparisons: Sequence[Comparison]) -> str:
    """A Markdown table of comparisons, with a line on how they were made."""
    head, groups = _table(comparisons)
    rules = ["---:" if letter == "r" else "---" for letter in _alignment(head)]
    rows = [_markdown_row([("text", name) for name in head]), f"| {' | '.join(rules)} |"]
    rows += [_markdown_row(row) for group in groups for row in group]
    return "\n".join([*rows, "", *(f"{markdown_text(line)}." for line in _notes(comparisons))]) + "\n"


# ---- the content


def checked(comparisons: Sequence[Any]) -> list[Comparison]:
    """The comparisons, if one table can hold them: its columns have one meaning."""
    from quadsim.comparison.paired import Comparison

    for one in comparisons:
        if not isinstance(one, Comparison):
            raise InputTypeError(f"a table holds comparisons (qs.compare), one argument for each, got {shown(one)}")
    first = comparisons[0]
    for name in ("objective", "max_steps", "tol", "level"):
        values = [one.level if name == "level" else getattr(one.protocol, name) for one in comparisons]
        if name == "tol" and first.protocol.objective != "steps-to-tol":
            continue
        if len(set(values)) > 1:
            listed = " and ".join(map(str, dict.fromkeys(values)))
            raise InputError(f"one table needs one {name}, got {listed}: export them one by one")
    return list(comparisons)


def _table(comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[list[Item]]]]:
    """The names of the columns, and the rows of each problem."""
    first = comparisons[0]
    summaries = [one.summary.to_dict("records") for one in comparisons]
    settings = any(row["settings"] for rows in summaries for row in rows)
    against = {one.reference for one in comparisons}
    label = next(row["label"] for row in summaries[0] if row["optimizer"] == first.reference)
    reference = label if len(against) == 1 else "the reference"
    decades = first.protocol.objective == "mean-log-loss"
    versus = f"{'less' if decades else '÷'} {reference} ({100 * first.level:g}% interval)"
    head = [
        "Problem",
        "Optimizer",
        "lr",
        "Settings",
        RESULTS[first.protocol.objective],
        "Quartiles",
        versus,
        "p (Holm)",
    ]
    head.append("Verdict")
    groups = []
    for one, rows in zip(comparisons, summaries, strict=True):
        cells = [_cells(row, one.protocol, name=one.problem if number == 0 else "") for number, row in enumerate(rows)]
        groups.append(cells)
    if not settings:
        head.remove("Settings")
        groups = [[row[:3] + row[4:] for row in rows] for rows in groups]
    return head, groups


def _cells(row: dict[Any, Any], protocol: EvaluationProtocol, name: str) -> list[Item]:
    decades = protocol.objective == "mean-log-loss"
    compared = isinstance(row["against"], str)
    lr: Item = ("text", row["lr"]) if isinstance(row["lr"], str) else ("number", (row["lr"], LR_DIGITS))
    if row["factor"] and not isinstance(row["lr"], str):
        lr = ("join", [("text", "×"), lr])
    if row["given"]:
        lr = ("join", [lr, ("text", " given")])
    if isinstance(row["failed"], str):
        lr = ("text", "–")
    quartiles: Item = ("join", [_number(row["lower"]), ("text", " to " if decades else "–"), _number(row["upper"])])
    difference: Item = ("text", "")
    both_failed = compared and row["difference"] == 0 and not math.isfinite(row["median"])
    if both_failed:
        difference = ("text", "–")
    elif compared:
        ends = [_ratio(row[key], decades) for key in ("difference", "low", "high")]
        difference = ends[0]
        if not math.isnan(row["low"]):
            inside = [("text", " ("), ends[1], ("text", " to " if decades else "–"), ends[2], ("text", ")")]
            difference = ("join", [difference, *inside])
    return [
        ("text", name[:1].upper() + name[1:]),
        ("text", row["label"]),
        lr,
        ("text", row["settings"]),
        _number(row["median"]),
        quartiles,
        difference,
        _number(row["p_adjusted"]) if compared and not both_failed else difference,
        ("text", row["verdict"]),
    ]


def _number(value: float) -> Item:
    return "number", (float(value), DIGITS)


def _ratio(difference: float, decades: bool) -> Item:
    """A paired difference as a ratio, or in decades for an objective that is in decades itself."""
    if decades or not math.isfinite(difference):
        infinite_ratio = not decades and difference == -math.inf
        return "number", (0.0 if infinite_ratio else difference, DIGITS)
    near_one = abs(difference) < math.log10(1.1)
    return "number", (10**difference, DIGITS + near_one)


def _notes(comparisons: Sequence[Comparison]) -> list[str]:
    first = comparisons[0]
    given = list(dict.fromkeys(label for one in comparisons for label in one.given))
    labels = {label for one in comparisons for label in one.summary["label"]}
    steps, tol = f"{first.protocol.max_steps:,}", f"{first.protocol.tol:g}"
    objective = {
        "final-loss": f"Loss after {steps} steps",
        "steps-to-tol": f"Steps to {tol} of the first gradient norm, {steps} at most",
        "mean-log-loss": f"Mean of log10 L/L0 over {steps} steps",
    }[first.protocol.objective]
    draws, others = (
        " or ".join(f"{count:,}" for count in sorted({len(getattr(one, name)) for one in comparisons}))
        for name in ("seeds", "tuning_seeds")
    )
    tuned = tuned_or_given(f"tuned on {others} other draws", given, len(labels))
    lines = [f"{objective}: medians over {draws} draws; {tuned}"]
    lines += [f"{one.problem.capitalize()}: no run has a result" for one in comparisons if failures(one)]
    if first.comparisons:
        lines.append(
            f"p: two-sided sign test of paired differences, Holm over {counted(first.comparisons, 'comparison')}"
        )
    return lines


def _alignment(head: Sequence[str]) -> str:
    return "".join("l" if name in ("Problem", "Optimizer", "Settings", "Verdict") else "r" for name in head)


# ---- the two languages


def latex_text(text: str) -> str:
    """Text for LaTeX in text mode: special characters and symbols as commands; other scripts are left unchanged."""
    return "".join(LATEX_LETTERS.get(letter, letter) for letter in _one_line(text))


def markdown_text(text: str) -> str:
    """Text for a cell of a Markdown table: one line, special characters escaped."""
    return "".join(f"\\{letter}" if letter in MARKDOWN_SPECIAL else letter for letter in _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"[^\S\u00a0]+|[\x00-\x1f]+", " ", text)  # keeps no-break spaces


def latex_number(value: float, digits: int) -> str:
    """So many significant digits in math mode: $0.031$, $12\\,400$, $3.1\\times10^{-5}$, $\\infty$; -- for NaN."""
    if not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    mantissa, exponent = _rounded(value, digits)
    if exponent is not None:
        return rf"${mantissa}\times10^{{{exponent}}}$"
    return f"${mantissa.replace(',', chr(92) + ',')}$"


def markdown_number(value: float, digits: int) -> str:
    """So many significant digits: 0.031, 12,400, 3.1e-5, ∞; – for NaN."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    mantissa, exponent = _rounded(value, digits)
    return mantissa if exponent is None else f"{mantissa}e{exponent}"


def _rounded(value: float, digits: int) -> tuple[str, int | None]:
    """A number rounded to significant digits; with an exponent outside the plain range. Whole parts are kept."""
    if value == 0:
        return "0", None
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    size = float(f"{mantissa}e{exponent}")
    if not PLAIN_FROM <= abs(size) < PLAIN_BELOW:
        return mantissa, int(exponent)
    places = max(digits - 1 - int(exponent), 0)
    return f"{value:,.{places}f}", None


def _render(item: Item, text: Callable[[str], str], number: Callable[[float, int], str]) -> str:
    kind, content = item
    if kind == "join":
        return "".join(_render(part, text, number) for part in content)
    return text(content) if kind == "text" else number(*content)


def _latex_row(cells: Iterable[Item]) -> str:
    return " & ".join(_render(cell, latex_text, latex_number) for cell in cells) + r" \\"


def _markdown_row(cells: Iterable[Item]) -> str:
    return f"| {' | '.join(_render(cell, markdown_text, markdown_number) for cell in cells)} |"
