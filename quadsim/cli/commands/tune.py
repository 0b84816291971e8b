"""Find the best learning rates over draws of a problem.

python -m quadsim tune case=3 optimizers=adam
python -m quadsim tune case=3,4 optimizers=gd,adam adam.beta2=0.9,0.99 objective=steps-to-tol tol=1e-4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim._validation import InputError
from quadsim.cli import compare_report, reading, tuning
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.outputs import command_line, print_files, print_json, stem
from quadsim.cli.tuning import lr_scale_note

if TYPE_CHECKING:
    from quadsim.comparison.tuning import Tuned

KEYS = tuning.KEYS
SETTINGS = True


def main(line: CommandLine) -> None:
    options, seeds = tuning.tuning_arguments(line.values), line.values["seed"]
    optimizers, grids = tuning.read_grids(line)
    for name, grid in grids.items():
        if "lr" in grid and all(len(values) == 1 for values in grid.values()):
            raise InputError(f"{name}.lr={grid['lr'][0]} leaves nothing to tune: give several values, or none")
    draws = reading.draws(line.values)
    folder = reading.folder(line)
    import pandas as pd

    from quadsim import _artifacts, plots
    from quadsim.comparison import evaluation
    from quadsim.comparison.tuning import tune

    found: list[Tuned] = []
    rows: list[dict[str, Any]] = []
    with tuning.progress(len(draws) * len(optimizers)) as progress:
        for draw in draws:
            for name, optimizer in optimizers.items():
                show = progress(len(found))
                best = tune(draw, optimizer, seed=seeds, grid=grids.get(name), progress=show, **options)
                found.append(best)
                rows.append(compare_report.tuned_row(draw(seeds[0]), name, optimizer, best))
    frames = [
        best.tried.assign(**{key: row[key] for key in ("problem", "optimizer", "label")})
        for row, best in zip(rows, found, strict=True)
    ]
    tried = pd.concat(frames, ignore_index=True)
    protocol = evaluation.EvaluationProtocol(
        **{key: options[key] for key in ("objective", "max_steps", "tol") if key in options}
    )
    titles = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        rates = [f"{row['label']} {compare_report.lr_text(row)}" for row in rows if row["problem"] == problem]
        titles[problem] = f"{problem.capitalize()}: best lr of {', '.join(rates)}"
    texts = line.recorded()
    caption = f"{command_line('tune', texts)}: {compare_report.steps_text(protocol)}"
    caption += f", medians and quartiles of {len(seeds)} draws"
    figure = plots.sensitivity(
        tried,
        objective=protocol.objective,
        titles=titles,
        caption=f"{caption}; {compare_report.NOTE}{lr_scale_note(rows)}",
    )
    result: dict[str, Any] = {"objective": protocol.objective, "max_steps": protocol.max_steps, "seed": seeds}
    result["tuned"] = [compare_report.plain(row) for row in rows]
    settings = {"command": command_line("tune", texts), **result, "versions": _artifacts.versions()}
    tables = {"": pd.DataFrame(rows), "-tried": tried}
    result["files"] = [str(path) for path in _artifacts.write(folder, stem("tune", texts), figure, tables, settings)]
    if line.json:
        print_json(result)
        return
    screen = console()
    compare_report.show_tuned(screen, rows, found, protocol)
    print_files(result["files"], screen)
