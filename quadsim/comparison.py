"""Comparing optimizers honestly: tuned on some draws, confirmed on others, paired draw by draw.

Every optimizer sees the same problems, starts and noise. What is reported is the median of the paired differences to
a reference with an exact interval, and a sign test corrected for the number of comparisons. No plotting, no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import bootstrap, checks
from quadsim.bootstrap import paired_difference, quantile, quartiles
from quadsim.checks import InputError, InputTypeError
from quadsim.objectives import LEAST_LOSS, LEAST_RELATIVE, Draw, Terms, diverged, remembered, seeds_of, underflowed
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
    """The results of a comparison, as tables.

    Attributes
    ----------
    summary : DataFrame
        One row for each optimizer:

        - ``lr`` (and ``settings``, if others were tuned); ``edge`` and ``failed`` of the tuning, ``given`` if there was
          nothing to tune;
        - ``lower``, ``median``, ``upper``: quartiles of the result over the confirmation seeds, without runs that
          underflowed: losses, steps, or decades for "mean-log-loss";
        - ``against``: the reference, None in its own row;
        - ``difference``: the median of the paired differences to the reference in decades (of loss, or of steps),
          negative where the optimizer is better; ``low`` to ``high``: its interval, absent with too few seeds;
        - ``p``: of the sign test; ``p_adjusted``: by Holm's method, for ``comparisons`` of them; ``verdict``;
        - ``wins``: the share of seeds on which it beat the reference, ties and undecided pairs counting half;
        - ``diverged``, ``underflow``: the shares of seeds on which it did; ``absent``: on which it diverged, or did not
          reach tol; ``rose``: on which it diverged, or ended above its start; ``undecided``: on which it or the
          reference underflowed;
        - ``slack`` and the sensitivities of `Tuned`.
    runs : DataFrame
        One row for each optimizer and confirmation seed.
    tried : DataFrame
        One row for each setting tried on the tuning seeds.
    bands : DataFrame
        Quartiles over the confirmation seeds on the way, of what ``measure`` names, without runs that underflowed.
    comparisons : int
        The number of comparisons that p-values are adjusted for: see `corrected`.
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
    comparisons: int
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
        Of each interval: two order statistics of the paired differences, which enclose their median with at least this
        probability, given the tuned settings, whatever the law of the differences. It is widened to the hull of those
        at every pair of settings that a fifth of the resamples of the tuning seeds choose, since otherwise the luck of
        tuning alone could tell equal optimizers apart. At 0.95 it takes 6 seeds. Intervals are per comparison, not
        simultaneous.
    objective, steps, tol, refine, extend, progress, how :
        As in `tune`.

    The verdict is "better" or "worse" where a two-sided sign test, dual to the interval, rejects at 1 − level after
    Holm's correction for the number of comparisons with the reference. What a finer grid of learning rates might give
    the other optimizer (`Tuned.slack`) does not count as a difference. Otherwise it is "no difference found", or "too
    few seeds" where so few cannot show a difference among so many comparisons. "diverged", "underflow" or "not reached"
    where the optimizer did so on most draws.

    Two runs that both failed are a tie. A run that underflowed has no result: its pair is undecided, which is a win for
    neither and counts as −∞ at the lower end of the interval and ∞ at the upper one. "undecided" where most pairs are.

    >>> qs.compare(lambda seed: qs.case(3, seed=seed), [qs.GD(), qs.Adam()], seeds=range(30)).summary
    """
    named = _named(optimizers)
    terms = Terms(objective, steps, tol, threads, how)
    level = checks.real("level", level, above=0, below=1)
    confirm = seeds_of("seeds", seeds)
    if len(confirm) < 2:
        raise InputError(f"a comparison needs at least two seeds, got {len(confirm)}")
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
    results = {name: _Results(len(tuned[name].leaders), len(confirm)) for name in named}
    for place, row in enumerate(rows):
        for (name, k), run in zip(lanes, row, strict=True):
            results[name].add(k, place, run, terms)
    where = {"problem": first.name, "minimizer": first.minimizer_kind}
    who = {name: {**where, "optimizer": name, "label": _label(name, named[name])} for name in named}
    slacks = {name: best.slack for name, best in tuned.items()}
    beside = {name: _beside(name, reference, results, choices, slacks, level) for name in named}
    made = Comparison(
        summary=_summary(who, tuned, results, beside, terms),
        runs=_records(who, results, reference, confirm),
        tried=_joined([best.tried.assign(**who[name])[[*who[name], *best.tried]] for name, best in tuned.items()]),
        bands=_joined([_band(results[name].trusted(), terms, who[name]) for name in named]),
        tuned=tuned,
        problem=first.name,
        reference=reference,
        terms=terms,
        level=level,
        comparisons=len(named) - 1,
        seeds=confirm,
        tuning_seeds=tuning,
    )
    return corrected([made])[0]


def corrected(made: Sequence[Comparison]) -> list[Comparison]:
    """Adjust p-values and verdicts for all comparisons in all of these together, by Holm's method.

    `compare` does so for the optimizers of one call; comparisons that are reported together are one family.
    """
    summaries = [one.summary for one in made]
    p = np.concatenate([summary.loc[summary["against"].notna(), "p"].to_numpy(dtype=float) for summary in summaries])
    adjusted = iter(bootstrap.holm(p))
    found = []
    for one, summary in zip(made, summaries, strict=True):
        rows = summary.to_dict("records")
        for row in rows:
            row["comparisons"] = p.size
            if row["optimizer"] == one.reference:
                row["verdict"] = _failure(row) or "–"
            else:
                row["p_adjusted"] = float(next(adjusted))
                row["verdict"] = _verdict(row, one.level)
        columns = {key: [row[key] for row in rows] for key in ("p_adjusted", "comparisons", "verdict")}
        found.append(replace(one, summary=summary.assign(**columns), comparisons=int(p.size)))
    return found


def _failure(row: dict[Any, Any]) -> str | None:
    """How the optimizer failed on most draws, if it did."""
    for key, word in (("diverged", "diverged"), ("underflow", "underflow"), ("absent", "not reached")):
        if row[key] > 0.5:
            return word
    return None


def _verdict(row: dict[Any, Any], level: float) -> str:
    if failure := _failure(row):
        return failure
    if row["undecided"] > 0.5:
        return "undecided"
    if row["seeds"] < bootstrap.fewest(level):
        return "too few seeds"
    if _rejects(row["p_adjusted"], level):
        return "better" if row["difference"] < 0 else "worse"
    if _rejects(row["p"], level) and row["seeds"] < bootstrap.fewest(level, row["comparisons"]):
        return "too few seeds"
    return "no difference found"


def _rejects(p: float, level: float) -> bool:
    return p <= (1 - level) * (1 + bootstrap.TIE)


class _Results:
    """The confirmation runs of an optimizer at each of its leading settings: scores, and which of them underflowed."""

    def __init__(self, settings: int, seeds: int) -> None:
        self.scores = np.zeros((settings, seeds))
        self.lost = np.zeros((settings, seeds), dtype=bool)
        self.runs: list[Trajectory] = []  # at the chosen setting

    def add(self, setting: int, place: int, run: Trajectory, terms: Terms) -> None:
        self.scores[setting, place], self.lost[setting, place] = terms.score(run), underflowed(run)
        if setting == 0:
            self.runs.append(run)

    def trusted(self) -> list[Trajectory]:
        """The runs that did not underflow; all if none is left."""
        kept = [run for run, lost in zip(self.runs, self.lost[0], strict=True) if not lost]
        return kept or self.runs

    def differences(self, other: _Results) -> np.ndarray:
        """Paired differences, (my settings, the other's settings, seeds); NaN where one of the two underflowed."""
        difference = paired_difference(self.scores[:, None], other.scores[None])
        return np.where(self.lost[:, None] | other.lost[None], np.nan, difference)


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
    name: str, reference: str, results: dict[str, _Results], choices: dict[str, np.ndarray], slacks: dict[str, float],
    level: float,
) -> dict[str, Any]:  # fmt: skip
    """How an optimizer compares with the reference, before any correction for several comparisons."""
    mine, theirs = results[name], results[reference]
    row: dict[str, Any] = {
        "against": None,
        **dict.fromkeys(("difference", "low", "high", "p", "p_adjusted", "comparisons", "verdict", "wins")),
        "diverged": float(np.mean([diverged(run) for run in mine.runs])),
        "underflow": float(mine.lost[0].mean()),
        "absent": float((np.isinf(mine.scores[0]) & ~mine.lost[0]).mean()),
        "rose": float(np.mean([diverged(run) or run.loss[-1] > run.loss[0] for run in mine.runs])),
        "undecided": float((mine.lost[0] | theirs.lost[0]).mean()),
    }
    if name == reference:
        return row
    every = mine.differences(theirs)
    pairs = bootstrap.frequent(choices[name] * every.shape[1] + choices[reference])
    possible = every.reshape(-1, every.shape[2])[pairs]  # at each pair of settings that tuning may choose
    low, high = bootstrap.median_interval(possible, level)
    chosen = every[0, 0]
    decided = chosen[~np.isnan(chosen)]
    return row | {
        "against": reference,
        "difference": float(quantile(decided, 0.5)) if decided.size else np.nan,
        "low": low,
        "high": high,
        "p": min(bootstrap.sign_test(possible, below=slacks[reference], above=slacks[name])),
        "wins": float(np.mean(np.where(np.isnan(chosen), 0.5, np.where(chosen == 0, 0.5, chosen < 0)))),
    }


def _summary(
    who: dict[str, dict[str, str]], tuned: dict[str, Tuned], results: dict[str, _Results],
    beside: dict[str, dict[str, Any]], terms: Terms,
) -> pd.DataFrame:  # fmt: skip
    import pandas as pd

    rows = []
    for name, best in tuned.items():
        lr = best.settings["lr"]
        scores = results[name].scores[0][~results[name].lost[0]]
        result = dict.fromkeys(("lower", "median", "upper"), np.nan)
        if scores.size:
            result = {key: float(value) for key, value in quartiles(scores).items()}
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
                "seeds": results[name].scores.shape[1],
            }
        )
    return pd.DataFrame(rows)


def _records(
    who: dict[str, dict[str, str]], results: dict[str, _Results], reference: str, confirm: list[int]
) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, mine in results.items():
        difference = mine.differences(results[reference])[0, 0]
        scores = np.where(mine.lost[0], np.nan, mine.scores[0])
        for seed, run, score, gap in zip(confirm, mine.runs, scores, difference, strict=True):
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
