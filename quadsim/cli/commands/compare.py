"""Compare optimizers: tuned on some draws, compared on others, paired draw by draw.

python -m quadsim compare case=3,4 optimizers=gd,adam
python -m quadsim compare case=3,4 batch=3 optimizers=sgd,signum,adam seed=0..29
python -m quadsim compare case=1,2,3,4 optimizers=gd,heavy-ball,adam profile=true export=latex,markdown
python -m quadsim compare case=3 optimizers=adam,rmsprop adam.beta2=0.9,0.99 lrs=1e-4:1:log9
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._format import tuned_or_given
from quadsim.cli import compare_report, outputs, reading, tuning
from quadsim.cli.arguments import CommandLine
from quadsim.keys import Key

if TYPE_CHECKING:
    from quadsim.comparison.paired import Comparison

_COMPARE = "comparison.paired:compare"
_TUNING_SEED = "the draws to tune on (as many, after those of seed)"
_PROFILE = "also a performance profile: the share of draws solved within a factor of the best, over all problems"
EXPORTS = {"latex": ".tex", "markdown": ".md"}
KEYS = keys.select(
    *tuning.KEYS.values(),
    tuning.KEYS["seed"]._replace(name="tuning_seed", help=_TUNING_SEED, default="", used_by=_COMPARE),
    Key(
        "reference",
        "text",
        "the optimizer that others are compared with (the first)",
        used_by=_COMPARE,
        shape="NAME",
        names="optimizers",
    ),
    Key("profile", "flag", _PROFILE, default="false"),
    Key("export", "words", "further files of the table", ("latex", "markdown"), shape="latex,markdown"),
    Key("level", "real", "of the intervals and tests", bounds={"above": 0, "below": 1}, used_by=_COMPARE),
)
SETTINGS = True


def main(line: CommandLine) -> None:
    options = tuning.tuning_arguments(line.values) | keys.arguments_of(_COMPARE, line.values, KEYS)
    if "reference" in options:
        options["reference"] = options["reference"].lower().replace("_", "-")
    optimizers, grids = tuning.read_grids(line)
    draws, seeds = reading.draws(line.values), line.values["seed"]
    outputs.check_folder(line)
    from quadsim.comparison import paired

    with tuning.progress(len(draws)) as progress:
        comparisons = paired.corrected(
            [
                paired.compare(draw, optimizers, seed=seeds, grids=grids, progress=progress(number), **options)
                for number, draw in enumerate(draws)
            ]
        )
    stretched = list(reading.kappa_notes(draws, seeds))
    result = _result(comparisons) | {"kappa_maps": stretched}
    profile = _profile(comparisons) if line.values["profile"] else None
    if profile is not None:
        result["profile"] = outputs.records(profile["shares"])
    _write(line, comparisons, result, profile)

    def show(screen: Any) -> None:
        compare_report.show_comparisons(screen, comparisons)
        for note in stretched:
            screen.print(note, soft_wrap=True)
        if profile is not None:
            compare_report.show_profile(screen, result["profile"], comparisons)

    outputs.report(line, result, show)


def _result(comparisons: list[Comparison]) -> dict[str, Any]:
    first = comparisons[0]
    return {
        "objective": first.protocol.objective,
        "max_steps": first.protocol.max_steps,
        "seed": first.seeds,
        "tuning_seed": first.tuning_seeds,
        **{key: getattr(first, key) for key in ("reference", "level", "comparisons")},
        "method": compare_report.method(first),
        "findings": {comparison.problem: compare_report.finding(comparison) for comparison in comparisons},
        "flips": compare_report.flip_sentences(comparisons),
        "comparison": [row for comparison in comparisons for row in outputs.records(comparison.summary)],
    }


def _profile(comparisons: list[Comparison]) -> dict[str, Any]:
    """The curves of the performance profile, and its table."""
    from quadsim.comparison import profiles

    curves = profiles.performance_profile(comparisons)
    return {"curves": curves, "shares": profiles.table_of(curves)}


def _write(
    line: CommandLine, comparisons: list[Comparison], result: dict[str, Any], profile: dict[str, Any] | None
) -> None:
    import pandas as pd

    from quadsim import plots

    summary, bands, tried, runs = (
        pd.concat([getattr(comparison, name) for comparison in comparisons], ignore_index=True)
        for name in ("summary", "bands", "tried", "runs")
    )
    first = comparisons[0]
    rates = tuned_or_given(f"tuned on {len(first.tuning_seeds)} others", first.given, len(first.summary))
    caption = (
        f"{outputs.recorded_command(line)}: medians and quartiles of {len(first.seeds)} draws, "
        f"{rates}; {compare_report.NOTE}; bars: {result['method']}"
        + compare_report.lr_scale_note(summary.to_dict("records"))
    )
    figure = plots.comparison(
        summary,
        bands,
        tried,
        runs,
        objective=first.protocol.objective,
        titles=result["findings"],
        caption=caption,
        tol=first.protocol.tol,
    )
    figures, tables = {"": figure}, {"": summary, "-runs": runs, "-tried": tried, "-curves": bands}
    if profile is not None:
        tables["-profile"] = profile["curves"]
        caption = f"{outputs.recorded_command(line)}: {compare_report.profile_text(comparisons)}"
        unit = "steps" if first.protocol.objective == "steps-to-tol" else "loss"
        figures["-profile"] = plots.profile(profile["curves"], unit=unit, caption=caption)
    made = {"latex": first.to_latex, "markdown": first.to_markdown}
    texts = {EXPORTS[name]: made[name](*comparisons[1:]) for name in line.values.get("export", ())}
    outputs.save(line, figures, tables, result, texts=texts)
