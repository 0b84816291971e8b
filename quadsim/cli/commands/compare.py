"""Compare optimizers: tuned on some draws, compared on others, paired draw by draw.

python -m quadsim compare case=3,4 optimizers=gd,adam
python -m quadsim compare case=3,4 batch=3 optimizers=sgd,signum,adam seed=0..29
python -m quadsim compare case=3 optimizers=adam,rmsprop adam.beta2=0.9,0.99 lrs=1e-4:1:log9
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli import compare_report, reading, tuning
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.outputs import command_line, print_files, print_json, stem
from quadsim.cli.tuning import lr_scale_note
from quadsim.keys import Key

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.comparison.paired import Comparison

_COMPARE = "comparison.paired:compare"
KEYS = {
    **tuning.KEYS,
    "tuning_seed": Key("tuning_seed", "whole", "the draws to tune on (as many, after those of seed)", "",
                       f"{_COMPARE}.tuning_seed", bounds=keys.KEYS["seed"].bounds, several=True),
    "reference": Key("reference", "text", "the optimizer that others are compared with (the first)", "",
                     f"{_COMPARE}.reference", shape="NAME"),
    "level": Key("level", "real", "of the intervals and tests", "", f"{_COMPARE}.level",
                 bounds={"above": 0, "below": 1}),
}  # fmt: skip
SETTINGS = True


def main(line: CommandLine) -> None:
    options = tuning.tuning_arguments(line.values) | {
        name: line.values[name] for name in ("tuning_seed", "level") if name in line.values
    }
    if "reference" in line.values:
        options["reference"] = line.values["reference"].lower().replace("_", "-")
    optimizers, grids = tuning.read_grids(line)
    draws = reading.draws(line.values)
    folder = reading.folder(line)
    from quadsim.comparison import paired

    with tuning.progress(len(draws)) as progress:
        made = [
            paired.compare(
                draw, optimizers, seed=line.values["seed"], grids=grids, progress=progress(number), **options
            )
            for number, draw in enumerate(draws)
        ]
    made = paired.corrected(made)
    result = _result(made)
    result["files"] = [str(path) for path in _write(folder, line.recorded(), made, result)]
    if line.json:
        print_json(result)
        return
    screen = console()
    for one in made:
        compare_report.show_comparison(screen, one)
    print_files(result["files"], screen)


def _result(made: list[Comparison]) -> dict[str, Any]:
    first = made[0]
    return {
        "objective": first.protocol.objective,
        "max_steps": first.protocol.max_steps,
        "seed": first.seeds,
        "tuning_seed": first.tuning_seeds,
        "reference": first.reference,
        "level": first.level,
        "comparisons": first.comparisons,
        "method": compare_report.method(first),
        "findings": {one.problem: compare_report.finding(one) for one in made},
        "comparison": [compare_report.plain(row) for one in made for row in one.summary.to_dict("records")],
    }


def _write(folder: Path, texts: dict[str, str], made: list[Comparison], result: dict[str, Any]) -> list[Path]:
    import pandas as pd

    from quadsim import _artifacts, plots

    frames: dict[str, pd.DataFrame] = {
        name: pd.concat([getattr(one, name) for one in made], ignore_index=True)
        for name in ("summary", "bands", "tried", "runs")
    }
    first = made[0]
    caption = (
        f"{command_line('compare', texts)}: medians and quartiles of {len(first.seeds)} draws, learning rates tuned on "
        f"{len(first.tuning_seeds)} others; {compare_report.NOTE}; bars: {compare_report.method(first)}"
        + lr_scale_note(frames["summary"].to_dict("records"))
    )
    figure = plots.comparison(
        *frames.values(),
        objective=first.protocol.objective,
        titles={one.problem: compare_report.finding(one) for one in made},
        caption=caption,
        tol=first.protocol.tol,
    )
    settings = {"command": command_line("compare", texts), **result, "versions": _artifacts.versions()}
    tables = {"": frames["summary"], "-runs": frames["runs"], "-tried": frames["tried"], "-curves": frames["bands"]}
    return _artifacts.write(folder, stem("compare", texts), figure, tables, settings)
