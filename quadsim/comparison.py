"""Comparing optimizers honestly: tuned on some draws, confirmed on others, paired draw by draw.

Every optimizer sees the same problems, starts and noise. What is reported is the median of the paired differences to
a reference with a bootstrap interval, and "no difference" where that interval says so. No plotting, no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import bootstrap, checks
from quadsim.bootstrap import paired_difference, quantile, quartiles
from quadsim.checks import InputError, InputTypeError
from quadsim.objectives import LEAST_LOSS, LEAST_RELATIVE, Draw, Terms, remembered, seeds_of
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.search import Search
from quadsim.solver import check_noise
from quadsim.trajectory import Status, Trajectory
from quadsim.tuning import Progress, Tuned, outcome, run_searches

if TYPE_CHECKING:
    import pandas as pd

POINTS = 400  # of a curve with its quartiles
MEASURES = {  # what is followed on the way, and the least value of it that counts
    "final-loss": ("loss", LEAST_LOSS),
    "steps-to-tol": ("relative gradient norm", LEAST_LOSS),
    "mean-log-loss": ("relative loss", LEAST_RELATIVE),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What came of a comparison, as tables.

    Attributes
    ----------
    summary : DataFrame
        One row for each optimizer. ``lr`` (and ``settings``, if others were tuned); ``edge`` and ``failed`` of the
        tuning, ``given`` if there was nothing to tune; quartiles of the result over the confirmation seeds (``lower``,
        ``median``, ``upper``): losses, steps, or decades for "mean-log-loss"; ``difference``: the median of the paired
        differences to the reference in decades (of loss, or of steps), negative where the optimizer is better, and its
        interval ``low`` to ``high``; ``verdict``; ``wins``: the share of seeds on which it beat the reference, ties
        counting half; ``diverged``: the share on which it diverged, and ``rose``: on which it did, or ended above its
        start; ``slack`` and the sensitivities of `Tuned`.
    runs : DataFrame
        One row for each optimizer and confirmation seed.
    tried : DataFrame
        One row for each setting tried on the tuning seeds.
    bands : DataFrame
        Quartiles over the confirmation seeds on the way, of what ``measure`` names.
    tuned : dict
        `Tuned` by the optimizer's name.
    """

    summary: pd.DataFrame
    runs: pd.DataFrame
    tried: pd.DataFrame
    bands: pd.DataFrame
    tuned: dict[str, Tuned]
    problem: str
    reference: str
    terms: Terms
    level: float
    seeds: list[int]
    tuning_seeds: list[int]


def compare(
    draw: Draw | BlockQuadratic,
    optimizers: Mapping[str, Optimizer] | Sequence[Optimizer],
    *,
    seeds: Sequence[int] = range(30),
    tuning_seeds: Sequence[int] | None = None,
    reference: str | None = None,
    objective: str = "final-loss",
    steps: int | None = None,
    tol: float = 1e-6,
    lrs: Sequence[float] | None = None,
    grids: Mapping[str, Any] | None = None,
    refine: int | None = None,
    extend: int | None = None,
    level: float = 0.95,
    threads: int | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Comparison:
    """Tune every optimizer on some draws of a problem, and compare them on others.

    Parameters
    ----------
    draw : callable or BlockQuadratic
        ``draw(seed)`` is the problem; a fixed problem has other starts (and noise) for other seeds.
    optimizers : dict or list
        Optimizers by name; in a list each has its own name, which must differ.
    seeds : list of int
        The draws to compare on, at least two.
    tuning_seeds : list of int, optional
        The draws to tune on, none of them among ``seeds``: by default as many, after the largest of those.
    reference : str, optional
        Which optimizer the others are compared with: the first one.
    lrs : list of float, optional
        One grid of learning rates for all.
    grids : dict, optional
        A grid for an optimizer by its name, as in `tune`; one value for each of its settings means that it is given.
    level : float
        Of the intervals, each for itself: percentiles of 10,000 bootstrap medians of the paired differences. A resample
        draws the tuning seeds afresh too, and takes the learning rates that these would have chosen.
    objective, steps, tol, refine, extend, progress, how :
        As in `tune`.

    The verdict is "better" or "worse" where the interval excludes 0 by more than what a finer grid of learning rates
    might give the other optimizer (`Tuned.slack`), and "no difference" otherwise; "too few seeds" where 0 is outside
    but no interval between so few draws can have this level; "diverged" or "not reached" where the optimizer did not
    get there on most draws. The difference of two runs that both failed is 0.

    >>> qs.compare(lambda seed: qs.case(3, seed=seed), [qs.GD(), qs.Adam()], seeds=range(30)).summary
    """
    named = _named(optimizers)
    terms = Terms(objective, steps, tol, threads, how)
    level = checks.real("level", level, above=0, below=1)
    confirm = seeds_of("seeds", seeds)
    if len(confirm) < 2:
        raise InputError(f"an interval needs at least two seeds, got {len(confirm)}")
    tuning = _tuning_seeds(confirm, tuning_seeds)
    reference = next(iter(named)) if reference is None else checks.choice("reference", reference, named)
    for name in grids or {}:
        checks.choice("optimizer", name, named)
    for optimizer in named.values():
        check_noise(optimizer, how.get("noise"))
    draw = remembered(draw)
    first = draw(tuning[0])
    searches = {
        name: Search(optimizer, first, (grids or {}).get(name, lrs), refine, extend, how.get("noise"))
        for name, optimizer in named.items()
    }
    run_searches(draw, list(searches.values()), tuning, terms, progress)
    tuned = {name: outcome(search, terms) for name, search in searches.items()}

    told = progress or (lambda what, done, total: None)
    choices = {name: bootstrap.choices([scores for _, scores in best.leaders]) for name, best in tuned.items()}
    lanes = [(name, int(k)) for name, chosen in choices.items() for k in np.union1d(chosen, 0)]
    rows = terms.runs(
        draw, [tuned[name].leaders[k][0] for name, k in lanes], confirm, whole=True,
        told=lambda done: told("confirming", done, len(confirm)),
    )  # fmt: skip
    runs: dict[str, list[Trajectory]] = {name: [] for name in named}
    scores: dict[str, np.ndarray] = {name: np.zeros((len(tuned[name].leaders), len(confirm))) for name in named}
    for place, row in enumerate(rows):
        for (name, k), run in zip(lanes, row, strict=True):
            scores[name][k, place] = terms.score(run)
            if k == 0:
                runs[name].append(run)
    who = {name: {"problem": first.name, "optimizer": name, "label": _label(name, named[name])} for name in named}
    beside = {name: _beside(name, reference, scores, choices, runs[name], tuned, level) for name in named}
    return Comparison(
        summary=_summary(who, tuned, scores, beside, terms),
        runs=_records(who, tuned, scores, runs, reference, confirm),
        tried=_joined([best.tried.assign(**who[name])[[*who[name], *best.tried]] for name, best in tuned.items()]),
        bands=_joined([_band(runs[name], terms, who[name]) for name in named]),
        tuned=tuned,
        problem=first.name,
        reference=reference,
        terms=terms,
        level=level,
        seeds=confirm,
        tuning_seeds=tuning,
    )


def _named(optimizers: Any) -> dict[str, Optimizer]:
    if isinstance(optimizers, Mapping):
        named = dict(optimizers)
    else:
        if isinstance(optimizers, str) or not isinstance(optimizers, Sequence):
            raise InputTypeError(f"optimizers must be a list, or a dict by name, got {checks.shown(optimizers)}")
        named = {}
        for optimizer in optimizers:
            name = getattr(optimizer, "name", optimizer)
            if name in named:
                raise InputError(f"optimizer {name} is named twice: give a dict with a name for each")
            named[name] = optimizer
    if not named:
        raise InputError("optimizers must name at least one")
    for name, optimizer in named.items():
        if not isinstance(optimizer, Optimizer) or not isinstance(name, str):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    return named


def _tuning_seeds(confirm: list[int], tuning_seeds: Any) -> list[int]:
    if tuning_seeds is None:
        return list(range(max(confirm) + 1, max(confirm) + 1 + len(confirm)))
    tuning = seeds_of("tuning_seeds", tuning_seeds)
    if both := sorted(set(tuning) & set(confirm)):
        listed = ", ".join(map(str, both[:5])) + (", …" if len(both) > 5 else "")
        raise InputError(f"tuning seeds must not be among the seeds that confirm, but {listed} are in both")
    return tuning


def _label(name: str, optimizer: Optimizer) -> str:
    return optimizer.label if name == optimizer.name else name


def _beside(
    name: str, reference: str, scores: dict[str, np.ndarray], choices: dict[str, np.ndarray], runs: list[Trajectory],
    tuned: dict[str, Tuned], level: float,
) -> dict[str, Any]:  # fmt: skip
    """How an optimizer stands beside the reference."""
    mine, theirs = scores[name], scores[reference]
    diverged = float(np.mean([run.status == Status.DIVERGED for run in runs]))
    rose = float(np.mean([run.status == Status.DIVERGED or run.loss[-1] > run.loss[0] for run in runs]))
    absent = float(np.mean(np.isinf(mine[0])))
    failed = "diverged" if diverged > 0.5 else "not reached" if absent > 0.5 else None
    if name == reference:
        nothing = dict.fromkeys(("difference", "low", "high", "wins"))
        return {**nothing, "verdict": failed or "–", "diverged": diverged, "rose": rose}
    difference = paired_difference(mine[0], theirs[0])
    every = paired_difference(mine[:, None], theirs[None]).reshape(-1, mine.shape[1])  # (pairs of leaders, seeds)
    low, high = bootstrap.median_interval(every, level, choices[name] * len(theirs) + choices[reference])
    verdict = "no difference"
    if high + tuned[reference].slack < 0:
        verdict = "better"
    elif low - tuned[name].slack > 0:
        verdict = "worse"
    if verdict != "no difference" and len(runs) < bootstrap.fewest(level):
        verdict = "too few seeds"
    return {
        "difference": float(quantile(difference, 0.5)),
        "low": low,
        "high": high,
        "wins": float(np.mean(difference < 0) + np.mean(difference == 0) / 2),
        "verdict": failed or verdict,
        "diverged": diverged,
        "rose": rose,
    }


def _summary(
    who: dict[str, dict[str, str]], tuned: dict[str, Tuned], scores: dict[str, np.ndarray],
    beside: dict[str, dict[str, Any]], terms: Terms,
) -> pd.DataFrame:  # fmt: skip
    import pandas as pd

    rows = []
    for name, best in tuned.items():
        lr = best.settings["lr"]
        result = {key: float(value) for key, value in quartiles(scores[name][0]).items()}
        if terms.objective != "mean-log-loss":
            result = {key: 10**value for key, value in result.items()}
        rows.append(
            {
                **who[name],
                "lr": "/".join(repr(rate) for rate in lr) if isinstance(lr, tuple) else lr,
                "settings": ", ".join(f"{key}={value}" for key, value in best.settings.items() if key != "lr"),
                **{key: getattr(best, key) for key in ("edge", "failed", "given", "factor")},
                **result,
                **beside[name],
                "slack": best.slack,
                **best.sensitivity(),
                "seeds": scores[name].shape[1],
            }
        )
    return pd.DataFrame(rows)


def _records(
    who: dict[str, dict[str, str]], tuned: dict[str, Tuned], scores: dict[str, np.ndarray],
    runs: dict[str, list[Trajectory]], reference: str, confirm: list[int],
) -> pd.DataFrame:  # fmt: skip
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name in tuned:
        difference = paired_difference(scores[name][0], scores[reference][0])
        for seed, run, score, gap in zip(confirm, runs[name], scores[name][0], difference, strict=True):
            how = {"score": float(score), "difference": float(gap)}
            loss = float(run.loss[-1]) if run.loss.size else None
            end = {
                "loss": loss,
                "steps_to_tol": run.steps_to_tol,
                "last_step": run.last_step,
                "status": str(run.status),
            }
            rows.append({**who[name], "seed": seed, **how, **end})
    return pd.DataFrame(rows).astype({"steps_to_tol": "Int64"})


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def _band(runs: list[Trajectory], terms: Terms, who: dict[str, str]) -> pd.DataFrame:
    """Quartiles at common steps. A run that diverged is infinite from there on; one that ended otherwise stays."""
    import pandas as pd

    last = max(run.last_step for run in runs)
    even, close = np.linspace(0, last, POINTS), np.geomspace(1, max(last, 1), POINTS)
    steps = np.unique(np.concatenate([even, close]).round().astype(np.int64))
    measure, least = MEASURES[terms.objective]
    curves = []
    for run in runs:
        values = run.grad_norm if measure == "relative gradient norm" else run.loss
        scale = 1.0 if measure == "loss" else values[0] or 1.0
        curve = np.interp(steps, run.steps, np.log10(np.maximum(values / scale, least)))
        if run.status == Status.DIVERGED:
            curve[steps >= run.last_step] = np.inf
        curves.append(curve)
    bands = {name: 10**values for name, values in quartiles(np.transpose(curves)).items()}
    return pd.DataFrame({**who, "measure": measure, "step": steps, **bands})
