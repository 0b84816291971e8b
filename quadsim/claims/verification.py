"""Running claims: draws and adversarial searches, in this process or in several, and the verdicts that follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._processes import ProcessPool, WorkerDiedError
from quadsim._random import stream
from quadsim._validation import InputError
from quadsim.claims import adversary
from quadsim.claims.adversary import Worst
from quadsim.claims.ledger import (
    LEDGER,
    MIN_VIOLATION,
    REFUTED,
    Claim,
    Draw,
    Finding,
    Observation,
    Verdict,
    finite_or_none,
    select,
)

BATCH_SIZE = 25  # draws between two reports of progress
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
    """Check claims, by default all, each with its own number of draws or with `draws`.

    The draws depend on the seed and the claim alone, not on which other claims are checked or on the number of
    processes (``workers``). `progress` is called with the claim and the fraction of its work that is done.
    """
    if draws is not None:
        draws = checks.whole("draws", draws, at_least=1, at_most=MAX_DRAWS)
    checks.whole("seed", seed, at_least=0)
    workers = checks.whole("workers", workers, at_least=1)
    tasks = [_Task(one, draws or one.draws, seed, progress) for one in (select() if claims is None else claims)]
    if workers > 1:
        _run_in_processes(tasks, workers)
    return [task.finding() for task in tasks]


def verify_claim(claim: Claim, draws: int, seed: int, progress: Progress | None = None) -> Finding:
    """One claim's verdict, in this process."""
    return _Task(claim, draws, seed, progress).finding()


class _Task:
    """The work on one claim: the islands of its search, then its draws in pieces."""

    def __init__(self, claim: Claim, draws: int, seed: int, progress: Progress | None) -> None:
        self.claim, self.draws, self.seed, self.progress = claim, draws, seed, progress
        self.observations: list[Observation] = []
        self.worst: list[Worst] = []
        self.seconds = 0.0

    @property
    def islands(self) -> range:
        return range(adversary.ISLANDS if self.claim.search else 0)

    def pieces(self, size: int) -> list[tuple[int, int]]:
        """The draws, as ranges of this size."""
        return [(low, min(low + size, self.draws)) for low in range(0, self.draws, size)]

    def add(self, found: Worst | list[Observation], seconds: float) -> None:
        """Add the result of an island or of a piece."""
        if isinstance(found, Worst):
            self.worst.append(found)
        else:
            self.observations += found
        self.seconds += seconds
        if self.progress is not None:  # search and draws count one half each
            share = len(self.observations) / self.draws
            self.progress(self.claim, (share + len(self.worst) / adversary.ISLANDS) / 2 if self.claim.search else share)

    def finding(self) -> Finding:
        """The verdict; runs the task first unless it has been run."""
        if not self.observations:
            for island in self.islands:
                self.add(*_timed(run_search, self.claim, self.draws, island, self.seed))
            for low, high in self.pieces(BATCH_SIZE):
                self.add(*_timed(run_draws, self.claim, low, high, self.seed))
        return _finding(self.claim, self.observations, self.worst, self.seconds)


def _run_in_processes(tasks: list[_Task], workers: int) -> None:
    """Run the tasks' islands and pieces in a process pool."""
    try:
        with ProcessPool(workers) as pool:
            pending = [
                (task, pool.submit(_search_by_id, task.claim.id, task.draws, island, task.seed))
                for task in tasks
                for island in task.islands
            ]
            pending += [
                (task, pool.submit(_draws_by_id, task.claim.id, *piece, task.seed))
                for task in tasks
                for piece in task.pieces(_piece_size(task.draws, workers))
            ]
            for task, future in pending:
                task.add(*pool.result(future))
    except WorkerDiedError:
        raise OSError("a worker process of verify died, perhaps out of memory") from None


def _piece_size(draws: int, workers: int) -> int:
    """A multiple of the batch size, with about four pieces for each worker."""
    return min(max(-(-draws // (4 * workers * BATCH_SIZE)), 1), 40) * BATCH_SIZE


def _search_by_id(id: str, draws: int, island: int, seed: int) -> tuple[Worst, float]:
    return _timed(run_search, LEDGER[id], draws, island, seed)


def _draws_by_id(id: str, low: int, high: int, seed: int) -> tuple[list[Observation], float]:
    return _timed(run_draws, LEDGER[id], low, high, seed)


def _timed(function: Callable[..., Any], *arguments: object) -> tuple[Any, float]:
    began = time.perf_counter()
    return function(*arguments), time.perf_counter() - began


def run_search(claim: Claim, draws: int, island: int, seed: int) -> Worst:
    """One island of the claim's search, with the evaluations that correspond to this many draws."""
    assert claim.search is not None
    rng = stream(seed, "claim", claim.id, "search", island)
    return adversary.search(claim.search, rng, -(-claim.evaluations(draws) // adversary.ISLANDS), island)


def run_draws(claim: Claim, low: int, high: int, seed: int) -> list[Observation]:
    """The observations of the draws from `low` to `high`."""
    observations: list[Observation] = []
    for first in range(low, high, BATCH_SIZE):
        numbers = range(first, min(first + BATCH_SIZE, high))
        draws = [Draw(number, stream(seed, "claim", claim.id, number)) for number in numbers]
        with np.errstate(all="ignore"):  # a slack that is not finite counts as a violation
            observations += claim.check(draws)
    if len(observations) != high - low:
        raise InputError(f"the check of claim {claim.id} returned {len(observations)} observations, not {high - low}")
    return observations


def _finding(claim: Claim, observations: list[Observation], found: list[Worst], seconds: float) -> Finding:
    verdict = claim.judge(claim, observations)
    worst = adversary.least(found) if found else None
    if worst is not None:
        verdict = _with_search(claim, verdict, worst)
    return Finding(
        claim=claim.id,
        status=claim.status,
        relation=claim.relation,
        verdict=verdict.verdict,
        ok=verdict.verdict == claim.expected,
        draws=len(observations),
        margin=verdict.margin,
        closeness=verdict.closeness,
        searched=worst.evaluations if worst else 0,
        worst=finite_or_none(worst.margin) if worst else None,
        worst_at=worst.at if worst and np.isfinite(worst.margin) else None,
        evidence=verdict.evidence,
        sentence=claim.sentence,
        seconds=seconds,
    )


def _with_search(claim: Claim, verdict: Verdict, worst: Worst) -> Verdict:
    """The verdict after the search: an asserted claim must survive it, and a FALSE one must be violated by it too."""
    assert claim.search is not None
    if claim.expected == REFUTED:
        if worst.margin < -MIN_VIOLATION:
            evidence = f"{verdict.evidence}; a search from a cold start violates it by {-worst.margin:.1e}"
            return verdict._replace(evidence=evidence)
        evidence = (
            f"{verdict.evidence}; a search of {worst.evaluations:,} evaluations from a cold start does not violate it"
        )
        return verdict._replace(verdict="not refuted", evidence=evidence)
    tolerance = claim.rounding if claim.search.rounding is None else claim.search.rounding
    if worst.margin >= -tolerance:
        return verdict
    evidence = f"{verdict.evidence}; the search violates it by {-worst.margin:.1e} at {worst.at}"
    return verdict._replace(verdict="violated", evidence=evidence)
