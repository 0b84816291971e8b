"""Paired comparison of optimizers: tuned on some draws, compared on others.

Every optimizer sees the same problems, starts and noise. The result is the median of the paired differences to a
reference with an exact interval, and a sign test corrected for the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._quantiles import quantile
from quadsim._random import refuse_seeds, seed_list
from quadsim._validation import InputError, InputTypeError
from quadsim.comparison import statistics, tables
from quadsim.comparison.evaluation import Draw, EvaluationProtocol, Progress, cached_draw, diverged
from quadsim.comparison.search import Search
from quadsim.comparison.tables import Results
from quadsim.comparison.tuning import Tuned, outcome, reporter, run_searches
from quadsim.optimizers import Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The results of a comparison, as tables.

    Attributes
    ----------
    summary : DataFrame
        One row for each optimizer:

        - ``lr`` (and ``settings``, if others were tuned); ``edge``, ``failed`` and ``given`` as in `Tuned`;
        - ``lower``, ``median``, ``upper``: quartiles of the result over the confirmation seeds, without runs that
          underflowed: losses, steps, or decades for "mean-log-loss";
        - ``against``: the reference; None in the reference's row;
        - ``difference``: the median of the paired differences to the reference in decades (of loss, or of steps),
          negative where the optimizer is better; ``low`` to ``high``: its interval, absent with too few seeds;
        - ``p``: of the sign test; ``p_adjusted``: by Holm's method for ``comparisons`` tests; ``verdict``;
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
        Quartiles of ``measure`` over the confirmation seeds, step by step, without runs that underflowed.
    comparisons : int
        The number of comparisons for which p-values are adjusted; see `corrected`.
    tuned : dict
        `Tuned` by the optimizer's name.
    problem, reference : str
        The names of the problem and of the reference.
    protocol : EvaluationProtocol
        How the optimizers were run and scored.
    level : float
        The level of the intervals.
    seeds, tuning_seeds : list of int
        The draws that the optimizers were compared on, and tuned on.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> result.reference, result.comparisons, result.summary["verdict"].tolist()
    ('gd', 1, ['–', 'better'])
    """

    summary: pd.DataFrame
    runs: pd.DataFrame
    tried: pd.DataFrame
    bands: pd.DataFrame
    tuned: dict[str, Tuned]
    problem: str
    reference: str
    protocol: EvaluationProtocol
    level: float
    comparisons: int
    seeds: list[int]
    tuning_seeds: list[int]

    def __repr__(self) -> str:
        from quadsim._display import comparisons

        return comparisons.comparison_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import comparisons

        return comparisons.comparison_html(self)

    @property
    def given(self) -> list[str]:
        """The labels of the optimizers whose settings were given, not tuned."""
        return [row["label"] for row in self.summary.to_dict("records") if row["given"]]

    def to_frame(self) -> pd.DataFrame:
        """The table of verdicts.

        Returns
        -------
        DataFrame
            A copy of ``summary``: one row for each optimizer.

        Examples
        --------
        >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
        >>> result.to_frame()["optimizer"].tolist()
        ['gd', 'block-gd']
        """
        return self.summary.copy()

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the curves, the sensitivity to the learning rate, and the paired differences.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.comparison`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50).plot()
        """
        from quadsim import plots

        return plots.comparison(self, ax=ax, **options)

    def profile(self, *others: Comparison) -> pd.DataFrame:
        """The table of `performance_profile` of this comparison, and of others.

        Parameters
        ----------
        *others : Comparison
            On other problems.

        Returns
        -------
        DataFrame
            One row for each optimizer and factor.

        Examples
        --------
        >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
        >>> result.profile().groupby("optimizer")["solved"].first().to_dict()
        {'block-gd': 1.0, 'gd': 1.0}
        """
        from quadsim.comparison import profiles

        return profiles.performance_profile([self, *others])

    def to_latex(self, *others: Comparison) -> str:
        """A LaTeX table (booktabs) of this comparison.

        The p-values and verdicts are those of `corrected`: the comparisons of one table form one family.

        Parameters
        ----------
        *others : Comparison
            On other problems; they follow below it.

        Returns
        -------
        str

        Examples
        --------
        >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
        >>> print(result.to_latex().splitlines()[0])
        % Loss after 50 steps: medians over 6 draws; learning rates tuned on 6 other draws
        """
        from quadsim.comparison import export

        return export.to_latex(corrected(export.checked([self, *others])))

    def to_markdown(self, *others: Comparison) -> str:
        """A Markdown table of this comparison.

        Parameters
        ----------
        *others : Comparison
            On other problems; they follow below it.

        Returns
        -------
        str

        Examples
        --------
        >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
        >>> print(result.to_markdown().splitlines()[0])
        | Problem | Optimizer | lr | Final loss | Quartiles | ÷ GD (95% interval) | p (Holm) | Verdict |
        """
        from quadsim.comparison import export

        return export.to_markdown(corrected(export.checked([self, *others])))


def compare(
    problem: Draw | BlockQuadratic,
    optimizers: Mapping[str, Optimizer] | Sequence[Optimizer],
    *,
    seed: Sequence[int] | str = range(30),
    tuning_seed: Sequence[int] | str | None = None,
    reference: str | None = None,
    objective: str = "final-loss",
    max_steps: int | None = None,
    tol: float = 1e-6,
    lrs: Sequence[float] | None = None,
    grids: Mapping[str, Any] | None = None,
    refine: int | None = None,
    extend: int | None = None,
    level: float = 0.95,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    **how: Any,
) -> Comparison:
    """Tune every optimizer on some draws of a problem, and compare them on others.

    Parameters
    ----------
    problem : BlockQuadratic, or a function of the seed that returns one
        A function draws a problem for each seed; a fixed problem has a new start (and noise) for each seed.
    optimizers : dict or list
        Optimizers by name, or a list of optimizers with distinct names.
    seed : list or range of int, or text
        The draws to compare on, at least two: ``range(30)``, ``[3, 5, 8]`` or ``"0..29"``.
    tuning_seed : list or range of int, or text, optional
        The draws to tune on, disjoint from ``seed``: by default as many, following its largest.
    reference : str, optional
        The optimizer that the others are compared with; by default the first.
    lrs : list of float, optional
        One grid of learning rates for all.
    grids : dict, optional
        Grids by optimizer name, as in `tune`; an optimizer with one value for each setting is not tuned.
    level : float
        The level of each interval: two order statistics of the paired differences, which enclose their median with at
        least this probability, given the tuned settings, whatever the distribution of the differences. It is widened to
        the hull over every pair of settings that a fifth of the bootstrap resamples of the tuning seeds choose, since
        otherwise the randomness of tuning could make equal optimizers differ. The level 0.95 needs 6 seeds. Intervals
        are per comparison, not simultaneous.
    objective, max_steps, tol, refine, extend, threads, progress, **how :
        As in `tune`.

    Returns
    -------
    Comparison

    Notes
    -----
    The verdict is "better" or "worse" where a two-sided sign test, dual to the interval, rejects at 1 − level after
    Holm's correction for the number of comparisons with the reference. Differences up to what a finer grid of learning
    rates might give the other optimizer (`Tuned.slack`) do not count. Otherwise it is "no difference found", or "too
    few seeds" if that many seeds cannot be significant with so many comparisons. It is "diverged", "underflow" or "not
    reached" where the optimizer failed in this way on most draws.

    Two runs that both failed are a tie. A run that underflowed has no result: its pair is undecided, a win for neither,
    and counts as −∞ at the lower end of the interval and as ∞ at the upper one. The verdict is "undecided" where most
    pairs are.

    Examples
    --------
    >>> result = qs.compare(lambda seed: qs.case(3, seed=seed), [qs.GD(), qs.BlockGD()], seed="0..5", max_steps=50)
    >>> result.summary[["optimizer", "verdict", "wins"]].values.tolist()
    [['gd', '–', nan], ['block-gd', 'better', 1.0]]
    """
    refuse_seeds(how)
    named = _named(optimizers)
    protocol = EvaluationProtocol(objective, max_steps, tol, threads, how)
    level = checks.real("level", level, above=0, below=1)
    confirm = seed_list("seed", seed, at_least=2)
    tuning = tuning_seeds(confirm, tuning_seed)
    reference = next(iter(named)) if reference is None else checks.choice("reference", reference, named)
    for name in grids or {}:
        checks.choice("optimizer", name, named)
    draw = cached_draw(problem)
    with _progress.of_call(progress, "compare", 1.0, takes="a label and two counts") as task:
        first = draw(tuning[0])
        searches = {
            name: Search(optimizer, first, (grids or {}).get(name, lrs), refine, extend, how.get("noise"))
            for name, optimizer in named.items()
        }
        report = reporter(progress, task)
        run_searches(draw, list(searches.values()), tuning, protocol, report)
        tuned = {name: outcome(search, protocol) for name, search in searches.items()}
        choices = {name: statistics.choices([scores for _, scores in best.leaders]) for name, best in tuned.items()}
        results = _confirmed(draw, tuned, choices, confirm, protocol, report)
    ids = {
        name: {
            "problem": first.name,
            "minimizer": first.minimizer_kind,
            "optimizer": name,
            "label": optimizer.label if name == optimizer.name else name,
        }
        for name, optimizer in named.items()
    }
    against = {name: _against_reference(name, reference, tuned, results, choices, level) for name in named}
    comparison = Comparison(
        summary=tables.summary(ids, tuned, results, against, protocol),
        runs=tables.records(ids, results, reference),
        tried=tables.joined(
            [best.tried.assign(**ids[name])[[*ids[name], *best.tried]] for name, best in tuned.items()]
        ),
        bands=tables.joined([tables.band(results[name].without_underflow(), protocol, ids[name]) for name in named]),
        tuned=tuned,
        problem=first.name,
        reference=reference,
        protocol=protocol,
        level=level,
        comparisons=len(named) - 1,
        seeds=confirm,
        tuning_seeds=tuning,
    )
    return corrected([comparison])[0]


def _confirmed(
    draw: Draw,
    tuned: dict[str, Tuned],
    choices: dict[str, np.ndarray],
    seeds: list[int],
    protocol: EvaluationProtocol,
    progress: Progress,
) -> dict[str, Results]:
    """The results on the confirmation seeds, of the best settings and of those that the bootstrap chose."""
    lanes = [(name, int(k)) for name, chosen in choices.items() for k in np.union1d(chosen, 0)]
    leaders = [tuned[name].leaders[k][0] for name, k in lanes]
    results = {name: Results(len(best.leaders), len(seeds)) for name, best in tuned.items()}
    for index, row in enumerate(protocol.runs(draw, leaders, seeds, progress, "confirming", whole=True)):
        for (name, k), run in zip(lanes, row, strict=True):
            results[name].add(k, index, run, protocol)
    return results


def corrected(made: Sequence[Comparison]) -> list[Comparison]:
    """Adjust p-values and verdicts for the comparisons of all of these together, by Holm's method.

    `compare` does so for the optimizers of one call; comparisons that are reported together form one family.
    """
    summaries = [comparison.summary for comparison in made]
    p = np.concatenate([summary.loc[summary["against"].notna(), "p"].to_numpy(dtype=float) for summary in summaries])
    adjusted = iter(statistics.holm(p))
    results = []
    for comparison, summary in zip(made, summaries, strict=True):
        rows = summary.to_dict("records")
        for row in rows:
            row["comparisons"] = p.size
            if row["optimizer"] != comparison.reference:
                row["p_adjusted"] = float(next(adjusted))
            row["verdict"] = _verdict(row, comparison)
        columns = {key: [row[key] for row in rows] for key in ("p_adjusted", "comparisons", "verdict")}
        results.append(replace(comparison, summary=summary.assign(**columns), comparisons=int(p.size)))
    return results


def _verdict(row: dict[Any, Any], comparison: Comparison) -> str:
    for key in ("diverged", "underflow", "absent", "undecided"):
        if row[key] > 0.5:
            return "not reached" if key == "absent" else key
    if row["optimizer"] == comparison.reference:
        return "–"
    level, seeds = comparison.level, row["seeds"]
    alpha = (1 - level) * (1 + statistics.P_ROUNDING)
    if seeds < statistics.min_items(level):
        return "too few seeds"
    if row["p_adjusted"] <= alpha:
        return "better" if row["difference"] < 0 else "worse"
    if row["p"] <= alpha and seeds < statistics.min_items(level, row["comparisons"]):
        return "too few seeds"
    return "no difference found"


def _named(optimizers: Any) -> dict[str, Optimizer]:
    if isinstance(optimizers, str) or not isinstance(optimizers, Mapping | Sequence):
        raise InputTypeError(f"optimizers must be a list, or a dict by name, got {checks.shown(optimizers)}")
    named: dict[Any, Any] = {}
    if isinstance(optimizers, Mapping):
        optimizers, named = (), dict(optimizers)
    for optimizer in optimizers:
        name = getattr(optimizer, "name", optimizer)
        if name in named:
            raise InputError(f"optimizer {name} is named twice: give a dict with a name for each")
        named[name] = optimizer
    if not named:
        raise InputError("optimizers must hold at least one optimizer")
    for name, optimizer in named.items():
        if not isinstance(optimizer, Optimizer) or not isinstance(name, str):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    return named


def tuning_seeds(confirm: list[int], tuning_seed: Any = None, count: int | None = None) -> list[int]:
    """The seeds to tune on, disjoint from the others: by default ``count`` (as many) after the largest of these."""
    if tuning_seed is None:
        return list(range(max(confirm) + 1, max(confirm) + 1 + (len(confirm) if count is None else count)))
    tuning = seed_list("tuning_seed", tuning_seed)
    if both := sorted(set(tuning) & set(confirm)):
        listed = ", ".join(map(str, both[:5])) + (", …" if len(both) > 5 else "")
        raise InputError(
            f"tuning_seed must be disjoint from seed, but {listed} {'is' if len(both) == 1 else 'are'} in both"
        )
    return tuning


def _against_reference(
    name: str,
    reference: str,
    tuned: dict[str, Tuned],
    results: dict[str, Results],
    choices: dict[str, np.ndarray],
    level: float,
) -> dict[str, Any]:
    """How an optimizer compares with the reference, before the correction for several comparisons."""
    mine, theirs = results[name], results[reference]
    row: dict[str, Any] = {
        "against": None,
        **dict.fromkeys(("difference", "low", "high", "p", "p_adjusted", "comparisons", "verdict", "wins")),
        "diverged": float(np.mean([diverged(run) for run in mine.runs])),
        "underflow": float(mine.underflow[0].mean()),
        "absent": float((np.isinf(mine.scores[0]) & ~mine.underflow[0]).mean()),
        "rose": float(np.mean([diverged(run) or run.loss[-1] > run.loss[0] for run in mine.runs])),
        "undecided": float((mine.underflow[0] | theirs.underflow[0]).mean()),
    }
    if name == reference:
        return row
    differences = mine.differences(theirs)
    pairs = statistics.frequent_choices(choices[name] * differences.shape[1] + choices[reference])
    possible = differences.reshape(-1, differences.shape[2])[pairs]  # at each pair of settings that tuning may choose
    low, high = statistics.median_interval(possible, level)
    chosen = differences[0, 0]
    decided = chosen[~np.isnan(chosen)]
    return row | {
        "against": reference,
        "difference": float(quantile(decided, 0.5, "linear")) if decided.size else np.nan,
        "low": low,
        "high": high,
        "p": min(statistics.sign_test(possible, below=tuned[reference].slack, above=tuned[name].slack)),
        "wins": float(np.mean(np.where(np.isnan(chosen), 0.5, np.where(chosen == 0, 0.5, chosen < 0)))),
    }
