"""`compare`: optimizers tuned on some draws and compared on others. `tune`: only the tuning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.request import (
    CONDITION_KEYS,
    RUN_KEYS,
    case_number,
    read_conditions,
    read_optimizers,
    read_problem,
    read_steps,
)
from quadsim.verbs import verdicts
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.comparison import Comparison
    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.tuning import Tuned

TUNE_KEYS = (
    *(key for key in RUN_KEYS if key not in ("seed", "engine")), *CONDITION_KEYS, "seeds", "objective", "lrs", "refine",
    "extend",
)  # fmt: skip
COMPARE_KEYS = (*TUNE_KEYS, "tuning_seeds", "reference", "level")
DEFAULT_OPTIMIZERS = "gd,adam"


def compare(words: Words) -> None:
    """`compare case=3,4 optimizers=gd,adam`: tune on some draws, compare on others; the table, the figure, the data."""
    keys = grammar.only(words, COMPARE_KEYS, "compare case=3 optimizers=gd,adam", settings=True)
    how = read_terms(keys)
    seeds = grammar.seeds("seeds", keys.get("seeds", "30"))
    if "tuning_seeds" in keys:
        how["tuning_seeds"] = grammar.seeds("tuning_seeds", keys["tuning_seeds"])
        if not set(keys["tuning_seeds"]) & set(",."):  # a number of them, after those that confirm
            how["tuning_seeds"] = [max(seeds) + 1 + seed for seed in how["tuning_seeds"]]
    if "level" in keys:
        how["level"] = grammar.real("level", keys["level"])
    optimizers, grids = read_grids(keys)
    if "reference" in keys:
        how["reference"] = keys["reference"].lower().replace("_", "-")
    problems = read_problems(keys)
    folder = Path(keys.get("out", "figures"))
    from quadsim import comparison, results

    results.check_folder(folder)
    with _progress(len(problems)) as told:
        made = [
            comparison.compare(draw, optimizers, seeds=seeds, grids=grids, progress=told(place), **how)
            for place, draw in enumerate(problems)
        ]
    made = comparison.corrected(made)
    result = _result(made)
    result["files"] = [str(path) for path in _write(folder, keys, made, result)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
        return
    screen = console()
    for one in made:
        verdicts.show_comparison(screen, one)
    for path in result["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)


def tune(words: Words) -> None:
    """`tune case=3 optimizers=adam`: the best learning rates over draws; the table, the sensitivity curves."""
    keys = grammar.only(words, TUNE_KEYS, "tune case=3 optimizers=adam", settings=True)
    how = read_terms(keys)
    seeds = grammar.seeds("seeds", keys.get("seeds", "30"))
    optimizers, grids = read_grids(keys)
    for name, grid in grids.items():
        if "lr" in grid and all(len(values) == 1 for values in grid.values()):
            raise InputError(f"{name}.lr={grid['lr'][0]} leaves nothing to tune: give several values, or none")
    problems = read_problems(keys)
    folder = Path(keys.get("out", "figures"))
    import pandas as pd

    from quadsim import objectives, plots, results, tuning

    results.check_folder(folder)
    found: list[Tuned] = []
    rows: list[dict[str, Any]] = []
    with _progress(len(problems) * len(optimizers)) as told:
        for draw in problems:
            for name, optimizer in optimizers.items():
                best = tuning.tune(draw, optimizer, seeds=seeds, grid=grids.get(name), progress=told(len(found)), **how)
                found.append(best)
                rows.append(verdicts.tuned_row(draw(seeds[0]), name, optimizer, best))
    frames = [
        best.tried.assign(**{key: row[key] for key in ("problem", "optimizer", "label")})
        for row, best in zip(rows, found, strict=True)
    ]
    tried = pd.concat(frames, ignore_index=True)
    terms = objectives.Terms(**{key: how[key] for key in ("objective", "steps", "tol") if key in how})
    titles = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        rates = [f"{row['label']} {verdicts.lr_text(row)}" for row in rows if row["problem"] == problem]
        titles[problem] = f"{problem.capitalize()}: best lr of {', '.join(rates)}"
    said = {key: text for key, text in keys.items() if key != "out"}
    caption = f"{command('tune', said)}: {verdicts.steps_text(terms)}, medians and quartiles of {len(seeds)} draws"
    figure = plots.sensitivity(
        tried, objective=terms.objective, titles=titles, caption=f"{caption}; {verdicts.NOTE}{_factors(rows)}"
    )
    result: dict[str, Any] = {"objective": terms.objective, "steps": terms.steps, "seeds": seeds}
    result["tuned"] = [verdicts.plain(row) for row in rows]
    settings = {"command": command("tune", said), **result, "versions": results.versions()}
    tables = {"": pd.DataFrame(rows), "-tried": tried}
    result["files"] = [str(path) for path in results.write(folder, stem("tune", said), figure, tables, settings)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
        return
    screen = console()
    verdicts.show_tuned(screen, rows, found, terms)
    for path in result["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)


def read_problems(keys: dict[str, str]) -> list[Callable[[int], BlockQuadratic]]:
    """What draws each problem that the keys name, by the seed."""
    each = [keys]
    if "case" in keys:
        numbers = [case_number(text) for text in grammar.several("case", keys["case"])]
        if len(set(numbers)) < len(numbers):
            raise InputError(f"case={keys['case']} names a case twice")
        each = [{**keys, "case": str(number)} for number in numbers]

    def draw(one: dict[str, str]) -> Callable[[int], BlockQuadratic]:
        read_problem(one, 0)  # what is wrong is said before anything runs
        return lambda seed: read_problem(one, seed)

    return [draw(one) for one in each]


def read_grids(keys: dict[str, str]) -> tuple[dict[str, Optimizer], dict[str, dict[str, list[Any]]]]:
    """The optimizers by name, and what is to be tried of each: settings with several values, and a given lr."""
    keys = {"optimizers": DEFAULT_OPTIMIZERS, **keys}
    several = {key: grammar.alternatives(key, text) for key, text in keys.items() if "." in key}
    single = {key: text for key, text in keys.items() if len(several.get(key, [text])) == 1}
    optimizers = {optimizer.name: optimizer for optimizer in read_optimizers(single)}
    grids: dict[str, dict[str, list[Any]]] = {}
    if "lrs" in keys:
        rates = [grammar.real("lrs", text) for text in grammar.alternatives("lrs", keys["lrs"])]
        grids = {name: {"lr": [checks.real("lrs", rate, above=0) for rate in rates]} for name in optimizers}
    for key, texts in several.items():
        owner, _, setting = key.partition(".")
        if len(texts) > 1 or setting == "lr":
            made = [read_optimizers({**single, key: text}) for text in texts]
            values = [one.settings()[setting] for several_made in made for one in several_made if one.name == owner]
            grids.setdefault(owner, {})[setting] = values
    return optimizers, grids


def read_terms(keys: dict[str, str]) -> dict[str, Any]:
    """What both verbs take beside problem, optimizers and seeds, as `compare` and `tune` call it."""
    from quadsim.objectives import OBJECTIVES

    how: dict[str, Any] = {"steps": read_steps(keys)}
    if "objective" in keys:
        how["objective"] = checks.choice("objective", keys["objective"].lower(), OBJECTIVES)
    if "tol" in keys:
        how["tol"] = checks.real("tol", grammar.real("tol", keys["tol"]), above=0, below=1)
        if how.get("objective") != "steps-to-tol":
            raise InputError(f"tol={keys['tol']} has no use without objective=steps-to-tol: other runs take all steps")
    for key in ("refine", "extend"):
        if key in keys:
            how[key] = checks.whole(key, grammar.whole(key, keys[key]), at_least=0, at_most=12)
    return how | read_conditions(keys)


@contextmanager
def _progress(count: int) -> Iterator[Callable[[int], Callable[[str, int, int], None]]]:
    """A bar over the rounds of all problems; how many rounds there will be is known only as they come."""
    with counter("%", 100) as show:

        def of(place: int) -> Callable[[str, int, int], None]:
            reached = [0.0]

            def told(what: str, done: int, total: int) -> None:
                share = 1.0 if what == "confirming" else 0.25  # of what is left: each round a quarter, the last one all
                now = reached[0] + (1 - reached[0]) * share * done / total
                show(round(100 * (place + now) / count), what)
                if done == total:
                    reached[0] = now

            return told

        yield of


def _result(made: list[Comparison]) -> dict[str, Any]:
    first = made[0]
    return {
        "objective": first.terms.objective,
        "steps": first.terms.steps,
        "seeds": first.seeds,
        "tuning_seeds": first.tuning_seeds,
        "reference": first.reference,
        "level": first.level,
        "comparisons": first.comparisons,
        "method": verdicts.method(first),
        "findings": {one.problem: verdicts.finding(one) for one in made},
        "comparison": [verdicts.plain(row) for one in made for row in one.summary.to_dict("records")],
    }


def _write(folder: Path, keys: dict[str, str], made: list[Comparison], result: dict[str, Any]) -> list[Path]:
    import pandas as pd

    from quadsim import plots, results

    said = {key: text for key, text in keys.items() if key != "out"}
    frames: dict[str, pd.DataFrame] = {
        name: pd.concat([getattr(one, name) for one in made], ignore_index=True)
        for name in ("summary", "bands", "tried", "runs")
    }
    first = made[0]
    caption = (
        f"{command('compare', said)}: medians and quartiles of {len(first.seeds)} draws, learning rates tuned on "
        f"{len(first.tuning_seeds)} others; {verdicts.NOTE}; bars: {verdicts.method(first)}"
        + _factors(frames["summary"].to_dict("records"))
    )
    figure = plots.comparison(
        *frames.values(),
        objective=first.terms.objective,
        titles={one.problem: verdicts.finding(one) for one in made},
        caption=caption,
        tol=first.terms.tol,
    )
    settings = {"command": command("compare", said), **result, "versions": results.versions()}
    tables = {"": frames["summary"], "-runs": frames["runs"], "-tried": frames["tried"], "-curves": frames["bands"]}
    return results.write(folder, stem("compare", said), figure, tables, settings)


def _factors(rows: list[dict[Any, Any]]) -> str:
    names = dict.fromkeys(row["label"] for row in rows if row["factor"])
    return f"; the lr of {', '.join(names)} is a factor on its best known ones" if names else ""
