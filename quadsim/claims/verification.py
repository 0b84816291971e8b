"""Run claims: draws and adversarial searches, in one process or several, and the resulting verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._processes import ProcessPool, WorkerDiedError
from quadsim._random import checked_seed, stream
from quadsim._validation import InputError
from quadsim.claims import adversary
from quadsim.claims.adversary import Worst
from quadsim.claims.ledger import LEDGER, MIN_VIOLATION, REFUTED, Claim, Finding, Verdict, select
from quadsim.claims.observations import Draw, Observation

BATCH_SIZE = 25  # draws between two reports of progress
#: The largest number of draws of `verify`.
MAX_DRAWS = 10**7

Progress = Callable[[Claim, float], None]


def verify(
    claims: Sequence[Claim] | None = None,
    *,
    draws: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Finding]:
    """Check claims on random draws, and by their adversarial searches.

    The draws depend on the seed and the claim only, not on which other claims are checked or on the number of
    processes.

    Parameters
    ----------
    claims : list of Claim, optional
        By default all.
    draws : int, optional
        Of each claim; by default the claim's number.
    seed : int
    workers : int
        Processes.
    progress : function, optional
        Called with the claim and the fraction of its work that is done.

    Returns
    -------
    list of Finding

    Examples
    --------
    >>> from quadsim import claims
    >>> [(finding.claim, finding.verdict) for finding in claims.verify(claims.select(["1a"]), draws=5)]
    [('1a', 'holds')]
    """
    draws = None if draws is None else checks.whole("draws", draws, at_least=1, at_most=MAX_DRAWS)
    checked_seed(seed)
    workers = checks.whole("workers", workers, at_least=1)
    tasks = [_Task(one, draws or one.draws, seed, progress) for one in (select() if claims is None else claims)]
    if workers > 1:
        _run_in_processes(tasks, workers)
    return [task.finding() for task in tasks]


def verify_claim(claim: Claim, draws: int, seed: int) -> Finding:
    """Check one claim in this process."""
    return _Task(claim, draws, seed).finding()


class _Task:
    """The work on one claim: the islands of its search, then its draws in chunks."""

    def __init__(self, claim: Claim, draws: int, seed: int, progress: Progress | None = None) -> None:
        self.claim, self.draws, self.seed, self.progress = claim, draws, seed, progress
        self.observations: list[Observation] = []
        self.worst: list[Worst] = []
        self.seconds = 0.0

    def jobs(self, chunk_size: int) -> list[tuple[Callable[..., Any], int, int]]:
        """The islands of the search, then the draws in chunks: a function and its two numbers for each."""
        jobs: list[Any] = [(run_search, self.draws, k) for k in range(adversary.ISLANDS if self.claim.search else 0)]
        return jobs + [(run_draws, k, min(k + chunk_size, self.draws)) for k in range(0, self.draws, chunk_size)]

    def add(self, result: Worst | list[Observation], seconds: float) -> None:
        """Add the result of an island or of a chunk."""
        if isinstance(result, Worst):
            self.worst.append(result)
        else:
            self.observations += result
        self.seconds += seconds
        if self.progress is not None:  # search and draws count one half each
            share = len(self.observations) / self.draws
            self.progress(self.claim, (share + len(self.worst) / adversary.ISLANDS) / 2 if self.claim.search else share)

    def finding(self) -> Finding:
        """The verdict; runs the task first unless it has been run."""
        claim = self.claim
        if not self.observations:
            for function, *numbers in self.jobs(BATCH_SIZE):
                self.add(*_timed(function, claim, *numbers, self.seed))
        verdict = claim.judge(claim, self.observations)
        worst = adversary.least(self.worst) if self.worst else Worst(np.inf, {}, 0)
        verdict = _with_search(claim, verdict, worst) if claim.search else verdict
        return Finding(
            claim=claim.id,
            status=claim.status,
            relation=claim.relation,
            verdict=verdict.verdict,
            ok=verdict.verdict == claim.expected,
            draws=len(self.observations),
            margin=_finite_or_none(verdict.margin),
            closeness=verdict.closeness,
            searched=worst.evaluations,
            worst=_finite_or_none(worst.margin),
            worst_at=worst.at if np.isfinite(worst.margin) else None,
            evidence=verdict.evidence,
            sentence=claim.sentence,
            seconds=self.seconds,
        )


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _run_in_processes(tasks: list[_Task], workers: int) -> None:
    """Run the jobs of all tasks in a process pool."""
    try:
        with ProcessPool(workers) as pool:
            pending = [
                (task, pool.submit(_timed, function, task.claim.id, *numbers, task.seed))
                for task in tasks
                for function, *numbers in task.jobs(_chunk_size(task.draws, workers))
            ]
            for task, future in pending:
                task.add(*pool.result(future))
    except WorkerDiedError:
        raise OSError("a worker process of verify died, perhaps out of memory") from None


def _chunk_size(draws: int, workers: int) -> int:
    """A multiple of the batch size, with about four chunks for each worker."""
    return min(max(-(-draws // (4 * workers * BATCH_SIZE)), 1), 40) * BATCH_SIZE


def _timed(function: Callable[..., Any], claim: Claim | str, *numbers: int) -> tuple[Any, float]:
    """The result of a job and its seconds. A worker gets the id of the claim, since claims cannot be pickled."""
    began = time.perf_counter()
    result = function(LEDGER[claim] if isinstance(claim, str) else claim, *numbers)
    return result, time.perf_counter() - began


def run_search(claim: Claim, draws: int, island: int, seed: int) -> Worst:
    """One island of the claim's search, with the evaluations that correspond to this many draws."""
    assert claim.search is not None
    rng = stream(seed, "claim", claim.id, "search", island)
    return adversary.search(claim.search, rng, -(-claim.evaluations(draws) // adversary.ISLANDS), island)


def run_draws(claim: Claim, low: int, high: int, seed: int) -> list[Observation]:
    """The observations of the draws from `low` to `high` − 1."""
    observations: list[Observation] = []
    for first in range(low, high, BATCH_SIZE):
        numbers = range(first, min(first + BATCH_SIZE, high))
        draws = [Draw(number, stream(seed, "claim", claim.id, number)) for number in numbers]
        with np.errstate(all="ignore"):  # a slack that is not finite counts as a violation
            observations += claim.check(draws)
    if len(observations) != high - low:
        raise InputError(f"the check of claim {claim.id} returned {len(observations)} observations, not {high - low}")
    return observations


def _with_search(claim: Claim, verdict: Verdict, worst: Worst) -> Verdict:
    """The verdict after the search, which must not violate an asserted claim and must violate a FALSE one."""
    assert claim.search is not None
    if claim.expected == REFUTED and worst.margin < -MIN_VIOLATION:
        evidence = f"{verdict.evidence}; a search from a cold start violates it by {-worst.margin:.1e}"
        return verdict._replace(evidence=evidence)
    if claim.expected == REFUTED:
        evidence = f"{verdict.evidence}; a cold-start search ({worst.evaluations:,} evaluations) does not violate it"
        return verdict._replace(verdict="not refuted", evidence=evidence)
    tolerance = claim.rounding if claim.search.rounding is None else claim.search.rounding
    if worst.margin >= -tolerance:
        return verdict
    evidence = f"{verdict.evidence}; the search violates it by {-worst.margin:.1e} at {worst.at}"
    return verdict._replace(verdict="violated", evidence=evidence)
