"""tune=true: learning rates tuned on other draws before the run; and what results say about where rates come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from quadsim import keys
from quadsim._format import enumerated
from quadsim._validation import InputError
from quadsim.cli import outputs, reading, tuning
from quadsim.cli.arguments import CommandLine
from quadsim.keys import Key

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.comparison.tuning import Tuned
    from quadsim.engine.trajectory import Trajectory
    from quadsim.optimizers import Optimizer
    from quadsim.problems.block_quadratic import BlockQuadratic

TUNING_SEEDS = 10  # draws to tune on, by default
_TUNE = "tune the learning rate of every optimizer on other draws, then run; several values of other settings too"
_SEEDS = f"with tune=true: the draws to tune on (the {TUNING_SEEDS} after those of seed)"
KEYS = (
    Key("tune", "flag", _TUNE, default="false", group="run"),
    keys.KEYS["seed"]._replace(
        name="tuning_seed", help=_SEEDS, several=True, default="", used_by="", requires="tune=true", group="run"
    ),
)
LISTS = ("case", "seed", "optimizers", "rules")  # keys of which `compare` takes several values
PHRASES = {"theory": "best in closed form", "default": "library default", "given": "given", "tuned": "tuned"}


class Choice(NamedTuple):  # no dataclass, whose import takes milliseconds
    """The optimizers of a command line, the values to try of each, and whether their learning rates are to be tuned."""

    optimizers: list[Optimizer]
    grids: dict[str, dict[str, list[Any]]]
    tuning_seeds: list[int]  # none without tune=true
    given: tuple[str, ...]  # optimizers whose learning rate is given


class TunedProblem(NamedTuple):
    """The optimizers of a problem at their tuned rates, with the searches by name."""

    optimizers: list[Optimizer]
    by_name: dict[str, Tuned]
    rows: list[dict[str, Any]]  # as `tune` shows them
    origins: dict[str, str]


def read(line: CommandLine) -> Choice:
    """The optimizers; with tune=true also the grids and the tuning seeds, which must differ from those of seed=."""
    given = tuple(key.removesuffix(".lr") for key in line.settings if key.endswith(".lr"))
    if not line.values["tune"]:
        if "tuning_seed" in line.values:
            raise InputError(f"tuning_seed={line.texts['tuning_seed']} requires tune=true")
        return Choice(reading.optimizers(line), {}, [], given)
    from quadsim.comparison import paired

    optimizers, grids = tuning.read_grids(line)
    if all(_nothing_to_tune(grids.get(name, {})) for name in optimizers):
        raise InputError("tune=true leaves nothing to tune: every learning rate is given")
    tuning_seeds = paired.tuning_seeds(_seeds(line), line.values.get("tuning_seed"), TUNING_SEEDS)
    return Choice(list(optimizers.values()), grids, tuning_seeds, given)


def _nothing_to_tune(grid: Mapping[str, list[Any]]) -> bool:
    return "lr" in grid and all(len(values) == 1 for values in grid.values())


def _seeds(line: CommandLine) -> list[int]:
    seed = line.values.get("seed", 0)
    return list(seed) if isinstance(seed, list | tuple | range) else [seed]


def untuned(choice: Choice) -> TunedProblem:
    """The optimizers with their settings."""
    from quadsim.optimizers.lr_origin import lr_origin

    origins = {item.name: lr_origin(item, given=item.name in choice.given) for item in choice.optimizers}
    return TunedProblem(choice.optimizers, {}, [], origins)


def tune_all(
    draws: Sequence[Callable[[int], BlockQuadratic]], choice: Choice, options: Mapping[str, Any]
) -> list[TunedProblem]:
    """For each problem, every optimizer at the rate tuned on its other draws, under the conditions of the run."""
    if not choice.tuning_seeds:
        return [untuned(choice)] * len(draws)
    found = []
    with tuning.progress(len(draws) * len(choice.optimizers)) as progress:
        for number, draw in enumerate(draws):
            shows = [progress(number * len(choice.optimizers) + k) for k in range(len(choice.optimizers))]
            found.append(_tune_problem(draw, choice, options, shows))
    return found


def _tune_problem(
    draw: Callable[[int], BlockQuadratic], choice: Choice, options: Mapping[str, Any], shows: Sequence[Any]
) -> TunedProblem:
    from quadsim.comparison.evaluation import cached_draw

    cached = cached_draw(draw)
    first = cached(choice.tuning_seeds[0])
    by_name: dict[str, Tuned] = {}
    rows, origins = [], {}
    for item, show in zip(choice.optimizers, shows, strict=True):
        best = _tune(cached, item, choice, options, show)
        by_name[item.name] = best
        origins[item.name] = "given" if best.given else "tuned"
        row = {"problem": first.name, "optimizer": item.name, "label": item.label}
        rows.append({**row, "lr_from": origins[item.name], **_outcome(best)})
    return TunedProblem([best.optimizer for best in by_name.values()], by_name, rows, origins)


def _outcome(best: Tuned) -> dict[str, Any]:
    """The settings found, and their result on the tuning draws."""
    from quadsim.engine.table import cell

    row: dict[str, Any] = {key: cell(value) for key, value in best.optimizer.settings().items() if key in best.settings}
    if best.given:
        return row
    top = best.tried[best.tried["best"]].iloc[0]
    row |= {"objective": best.objective, "edge": best.edge, "failed": best.failed, "tried": len(best.tried)}
    row |= {key: 10.0 ** top[key] for key in ("lower", "median", "upper")}
    return row | {key: float(top[key]) for key in ("diverged", "underflow")}


def _tune(draw: Any, optimizer: Optimizer, choice: Choice, options: Mapping[str, Any], show: Any) -> Tuned:
    """The rate with the least upper quartile of the steps to tol; of the final loss if tol is 0 or is not reached.

    Medians would choose rates that diverge on half of the other draws. Limit on the steps and engine are those of the
    run.
    """
    from quadsim.comparison.tuning import tune
    from quadsim.engine import solver
    from quadsim.engine.trajectory import MAX_STEPS

    (engine,) = reading.engines([optimizer], options)
    tol = options["tol"]
    max_steps = solver.step_limit(engine, options["max_steps"], tol) or MAX_STEPS
    conditions = {name: options[name] for name in ("noise", "schedule", "start")}
    arguments: dict[str, Any] = {"seed": choice.tuning_seeds, "grid": choice.grids.get(optimizer.name)}
    arguments |= {"max_steps": max_steps, "engine": engine, "progress": show, "statistic": "upper", **conditions}
    if tol == 0:
        return tune(draw, optimizer, objective="final-loss", **arguments)
    best = tune(draw, optimizer, objective="steps-to-tol", tol=tol, **arguments)
    return tune(draw, optimizer, objective="final-loss", **arguments) if best.failed else best


def with_origins(runs: Iterable[Trajectory], found: TunedProblem) -> list[Trajectory]:
    """The runs with the origin of their learning rates."""
    from dataclasses import replace

    return [replace(run, lr_from=found.origins[run.optimizer.name]) for run in runs]


def result(found: Sequence[TunedProblem], choice: Choice) -> dict[str, Any]:
    """What is recorded of the tuning: its seeds, and of each optimizer the objective and the rate found."""
    if not choice.tuning_seeds:
        return {}
    return {"tuning_seed": choice.tuning_seeds, "tuned": [outputs.plain(row) for one in found for row in one.rows]}


def tried(found: Sequence[TunedProblem]) -> dict[str, pd.DataFrame]:
    """The table of all trials by its file's suffix; none without tune=true."""
    frames = [
        one.by_name[row["optimizer"]].tried.assign(**{key: row[key] for key in ("problem", "optimizer", "label")})
        for one in found
        for row in one.rows
        if not one.by_name[row["optimizer"]].given
    ]
    if not frames:
        return {}
    import pandas as pd

    return {"-tried": pd.concat(frames, ignore_index=True)}


# ---- sentences


def labels_by_origin(optimizers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The labels of optimizers by the origin of their learning rates, of pairs (label, origin)."""
    from quadsim.optimizers.lr_origin import LR_ORIGINS

    pairs = list(dict.fromkeys(optimizers))
    found = {origin: [label for label, of in pairs if of == origin] for origin in LR_ORIGINS}
    return {origin: labels for origin, labels in found.items() if labels}


def caption(by_origin: Mapping[str, Sequence[str]], choice: Choice) -> str:
    """`learning rates: GD best in closed form; Adam library default`."""
    on = f" on seeds {outputs.seeds_text(choice.tuning_seeds)}" if choice.tuning_seeds else ""
    parts = [
        f"{', '.join(labels)} {PHRASES[origin]}{on if origin == 'tuned' else ''}"
        for origin, labels in by_origin.items()
    ]
    return f"learning rates: {'; '.join(parts)}"


def offer(line: CommandLine, by_origin: Mapping[str, Sequence[str]]) -> str:
    """The sentence about a default rate beside a best one, with the command that tunes all; empty if there is none."""
    if not (begin := _default_beside_best(by_origin)):
        return ""
    command = outputs.command_line(line.command, {**line.recorded(), "tune": "true"})
    return f"{begin}: tune {_both_or_all(by_origin)} with `{command}`"


def offer_compare(line: CommandLine, by_origin: Mapping[str, Sequence[str]], draws: int) -> str:
    """The same for a sweep of so many draws, which does not tune: `compare` does, for one value of each key."""
    from quadsim.cli.commands.compare import KEYS

    if not (begin := _default_beside_best(by_origin)):
        return ""
    from quadsim.comparison.paired import compare
    from quadsim.comparison.statistics import min_items

    texts = {key: text for key, text in line.texts.items() if key in KEYS or key in line.settings}
    dropped = [key for key, text in texts.items() if key not in LISTS and key not in line.settings and _several(text)]
    texts = {key: text for key, text in texts.items() if key not in dropped}
    if draws < min_items((compare.__kwdefaults__ or {})["level"]):
        texts.pop("seed", None)  # so few draws show no difference
    if float(texts.get("tol", 1)) == 0:
        del texts["tol"]
    else:
        texts["objective"] = "steps-to-tol"
    where = f" (one value of {', '.join(dropped)} at a time)" if dropped else ""
    command = outputs.command_line("compare", texts)
    return f"{begin}: compare tunes {_both_or_all(by_origin)}{where}, `{command}`"


def _several(text: str) -> bool:
    return bool(re.search(r"[,:;]|\.\.|^none$", text))


def _default_beside_best(by_origin: Mapping[str, Sequence[str]]) -> str:
    from quadsim.optimizers.lr_origin import BEST_ORIGINS, is_unfair

    if not is_unfair(by_origin):
        return ""
    defaults, best = by_origin["default"], [label for origin in BEST_ORIGINS for label in by_origin.get(origin, ())]
    return f"{_listed(defaults)} at {_rates(defaults)}, {_listed(best, '')} at {_best(best)}"


def _both_or_all(by_origin: Mapping[str, Sequence[str]]) -> str:
    return "both" if sum(map(len, by_origin.values())) == 2 else "all"


def _listed(labels: Sequence[str], verb: str = "run") -> str:
    names = enumerated(labels)
    return f"{names} {verb}{'s' if len(labels) == 1 else ''}" if verb else names


def _rates(labels: Sequence[str]) -> str:
    return "its default learning rate" if len(labels) == 1 else "their default learning rates"


def _best(labels: Sequence[str]) -> str:
    return "its best one" if len(labels) == 1 else "their best ones"


def notes(found: Sequence[TunedProblem], tol: float) -> list[str]:
    """Warnings about the searches: the edge of a grid, rates that failed, a fallback to the final loss."""
    lines = []
    for one in found:
        for row in one.rows:
            best = one.by_name[row["optimizer"]]
            begin = f"{row['problem'].capitalize()}, {row['label']}"
            if best.failed:
                how = {"diverged": "diverged", "underflow": "underflowed"}.get(best.failed, best.failed)
                lines.append(f"{begin}: every learning rate tried {how} on a quarter of the tuning draws or more")
            elif best.edge:
                lines.append(f"{begin}: the tuned lr is the {best.edge} one tried")
            if tol and best.objective == "final-loss":
                why = "no learning rate reached tol on three quarters of the tuning draws"
                lines.append(f"{begin}: {why}: tuned for the final loss")
    return lines
