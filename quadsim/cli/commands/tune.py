"""Find the best learning rates over draws of a problem.

python -m quadsim tune case=3 optimizers=adam
python -m quadsim tune case=3,4 optimizers=gd,adam adam.beta2=0.9,0.99 objective=steps-to-tol tol=1e-4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim._validation import InputError
from quadsim.cli import compare_report, outputs, reading, tuning
from quadsim.cli.arguments import CommandLine

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
    outputs.check_folder(line)
    import pandas as pd

    from quadsim import plots
    from quadsim.comparison import evaluation
    from quadsim.comparison.tuning import tune

    tuned: list[Tuned] = []
    rows: list[dict[str, Any]] = []
    with tuning.progress(len(draws) * len(optimizers)) as progress:
        for draw in draws:
            for name, optimizer in optimizers.items():
                show = progress(len(tuned))
                best = tune(draw, optimizer, seed=seeds, grid=grids.get(name), progress=show, **options)
                tuned.append(best)
                rows.append(compare_report.tuned_row(draw(seeds[0]), name, optimizer, best))
    frames = [
        best.tried.assign(**{key: row[key] for key in ("problem", "optimizer", "label")})
        for row, best in zip(rows, tuned, strict=True)
    ]
    tried = pd.concat(frames, ignore_index=True)
    protocol = evaluation.EvaluationProtocol(
        **{key: options[key] for key in ("objective", "max_steps", "tol") if key in options}
    )
    titles = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        rates = [f"{row['label']} {compare_report.lr_text(row)}" for row in rows if row["problem"] == problem]
        titles[problem] = f"{problem.capitalize()}: best lr of {', '.join(rates)}"
    caption = (
        f"{outputs.recorded_command(line)}: {compare_report.steps_text(protocol)}, medians and "
        f"quartiles of {len(seeds)} draws; {compare_report.NOTE}{compare_report.lr_scale_note(rows)}"
    )
    figure = plots.sensitivity(tried, objective=protocol.objective, titles=titles, caption=caption)
    result: dict[str, Any] = {"objective": protocol.objective, "max_steps": protocol.max_steps, "seed": seeds}
    result["tuned"] = [outputs.plain(row) for row in rows]
    result["kappa_maps"] = list(reading.kappa_notes(draws, seeds))
    outputs.save(line, figure, {"": pd.DataFrame(rows), "-tried": tried}, result)

    def show_result(screen: Any) -> None:
        compare_report.show_tuned(screen, rows, tuned, protocol)
        for note in result["kappa_maps"]:
            screen.print(note, soft_wrap=True)

    outputs.report(line, result, show_result)
