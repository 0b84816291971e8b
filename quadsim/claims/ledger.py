"""A claim, its check and its verdict: the machinery of the ledger. What is claimed lives in the modules beside it.

A check looks at draws, one or a batch at a time, and says of each how much room the claim had left there (`Seen`). A
judge turns what was seen into a verdict with numbers. An inequality is also attacked by a search (`adversary`), whose
worst margin can overrule the judge. Nothing here knows any theory.
"""

from __future__ import annotations

import difflib
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from quadsim import checks
from quadsim._signals import deaf
from quadsim.checks import InputError
from quadsim.claims import adversary
from quadsim.claims.adversary import Search, Worst
from quadsim.streams import stream

PROVED, EXACT, TESTED, FALSE, PAPER = "PROVED", "EXACT", "TESTED", "FALSE", "PAPER"
INEQUALITY, EQUALITY, SAMPLE = "inequality", "equality", "sample"  # SAMPLE: a statement about the law of random draws
HOLDS, REFUTED, UNDECIDED = "holds", "refuted", "undecided"
ROUNDING = 1e-9  # a loss ratio after some steps of the solver is off by a few eps·κ, κ up to a million
CLOSE = 1e-6  # a tight bound must be met as closely as this, wherever a draw is made to meet it
BEYOND = 1e-6  # a counterexample must miss by more than this
BATCH = 25  # draws between two looks at the clock
MOST_DRAWS = 10**7


class Draw(NamedTuple):
    """One draw: its number and its own random stream."""

    number: int
    rng: np.random.Generator


class Seen(NamedTuple):
    """What a check saw in one draw.

    ``slack``: room left, relative to the bound: 0.1 is a tenth, negative a violation; for an identity, minus the
    relative deviation. ``gap``: how far from equality, where the draw was made to meet a tight bound. ``value``:
    numbers for the judge.
    """

    slack: float = np.inf
    gap: float | None = None
    value: Any = None


class Judged(NamedTuple):
    """What a judge makes of all draws: verdict, worst margin, the evidence in words, how close a tight claim came."""

    verdict: str
    margin: float | None
    evidence: str
    closeness: float | None = None


Judge = Callable[["Claim", list[Seen]], Judged]


@dataclass(frozen=True)
class Claim:
    """A statement with its check. ``expected`` is the verdict that the ledger's status stands for.

    ``relation``: INEQUALITY, EQUALITY (an identity, an if and only if, a list of numbers) or SAMPLE; None if the claim
    is not asserted. ``search`` is what an adversary may choose; every asserted inequality has one.
    """

    id: str
    status: str
    sentence: str
    proof: str
    draws: int
    check: Callable[[Sequence[Draw]], list[Seen]]
    judge: Judge
    rounding: float
    tight: bool
    expected: str
    relation: str | None = None
    search: Search | None = None

    def evaluations(self, draws: int) -> int:
        """Of the search's margin, for this many draws: the default number for the default draws, in proportion."""
        return -(-self.search.evaluations * draws // self.draws) if self.search else 0


@dataclass(frozen=True)
class Finding:
    """A claim's verdict: the row of a table.

    ``margin`` is the least room in the draws; ``worst`` the least that the adversarial search confirmed, at the point
    ``worst_at``, after ``searched`` evaluations.
    """

    claim: str
    status: str
    relation: str | None
    verdict: str
    ok: bool
    draws: int
    margin: float | None
    closeness: float | None
    searched: int
    worst: float | None
    worst_at: dict[str, Any] | None
    evidence: str
    sentence: str
    seconds: float

    def row(self) -> dict[str, Any]:
        return asdict(self)


LEDGER: dict[str, Claim] = {}


def claim(
    id: str,
    status: str,
    sentence: str,
    *,
    draws: int,
    tight: bool = False,
    rounding: float = ROUNDING,
    judge: Judge | None = None,
    expected: str | None = None,
    batch: bool = False,
    relation: str | None = None,
    search: Search | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a check into the ledger; its docstring is the proof. It takes a `Draw`, or a list of them (``batch``).

    A claim that is asserted is an inequality, and has a search, or says that it is none (``relation``).
    """
    relation = INEQUALITY if search is not None else relation
    if status in (PROVED, EXACT, TESTED) and (relation is None or (relation == INEQUALITY and search is None)):
        raise InputError(f"claim {id} needs search=Search(...), or relation=EQUALITY or SAMPLE if it is no inequality")

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        check = function if batch else lambda turns: [function(turn) for turn in turns]
        verdict = expected or (REFUTED if status == FALSE else HOLDS)
        usual = refuted if verdict == REFUTED else holds
        LEDGER[id] = Claim(
            id,
            status,
            sentence,
            _unwrapped(function.__doc__ or ""),
            draws,
            check,
            judge or usual,
            rounding,
            tight,
            verdict,
            relation,
            search,
        )
        return function

    return enter


def _unwrapped(text: str) -> str:
    """The docstring's paragraphs, each on one line."""
    paragraphs = "\n".join(line.strip() for line in text.strip().splitlines()).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def holds(claim: Claim, seen: list[Seen]) -> Judged:
    """A statement about all draws: it holds if none violates it by more than rounding, and a tight one is met."""
    margin = _least(seen)
    gaps = [one.gap for one in seen if one.gap is not None]
    closeness = float(max(gaps)) if gaps else None  # of all draws that were made to meet it
    if not margin >= -claim.rounding:
        broken = sum(not one.slack >= -claim.rounding for one in seen)
        return Judged("violated", _finite(margin), f"{broken:,} of {len(seen):,} draws violate it", closeness)
    if claim.tight and (closeness is None or not closeness <= CLOSE):
        told = (
            "no draw was made to meet it" if closeness is None else f"a draw made to meet it is off by {closeness:.1e}"
        )
        return Judged("not attained", _finite(margin), told, closeness)
    told = f"equal to {-margin:.1e}" if claim.status == EXACT and margin < 0 else "no violation"
    return Judged(HOLDS, _finite(margin), told + ("" if closeness is None else ", attained"), closeness)


def refuted(claim: Claim, seen: list[Seen]) -> Judged:
    """A false statement: one draw that violates it by more than rounding is enough."""
    margin = _least(seen)
    count = sum(one.slack < -BEYOND for one in seen)
    return Judged(
        REFUTED if count else "not refuted", _finite(margin), f"{count:,} of {len(seen):,} draws contradict it"
    )


def _least(seen: list[Seen]) -> float:
    """The smallest slack; one that is not a number is a violation."""
    slacks = np.array([one.slack for one in seen], dtype=float)
    return float(np.where(np.isnan(slacks), -np.inf, slacks).min())


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def chosen(ids: Iterable[str] | None = None) -> list[Claim]:
    """The claims with these ids, in the ledger's order; a section or a line picks all of its parts: 5, 5g, 5g-lower."""
    if ids is None:
        return sorted(LEDGER.values(), key=_place)
    found: dict[str, Claim] = {}
    for asked in ids:
        within = [key for key in LEDGER if _belongs(key, asked.lower())]
        if not within:
            near = difflib.get_close_matches(asked, LEDGER, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"unknown claim {checks.shown(asked)}: {hint}python -m quadsim list claims shows them all")
        found |= {key: LEDGER[key] for key in within}
    return sorted(found.values(), key=_place)


def section(claim: Claim) -> int:
    """The number that its id begins with."""
    return int("".join(itertools.takewhile(str.isdigit, claim.id)))


def _place(claim: Claim) -> tuple[int, str]:
    """Section, then line: 2a, 2b, …, then what belongs to the section as a whole."""
    number = section(claim)
    line = claim.id.removeprefix(str(number))[:1]
    return number, line if line.isalpha() else "~"


def _belongs(key: str, asked: str) -> bool:
    """Whether claim `key` is `asked`, or a part of it: 5g-lower of 5g, 5g of 5, but 10 not of 1."""
    rest = key.removeprefix(asked)
    return key == asked or (rest != key and (rest[0] == "-" or (asked.isdigit() and not rest[0].isdigit())))


def verify(
    claims: Sequence[Claim] | None = None,
    *,
    draws: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[Claim, float], None] | None = None,
) -> list[Finding]:
    """Check claims, all of the ledger by default, each with its usual number of draws or with `draws`.

    The same seed sees the same draws, whatever else is checked and by how many processes (``workers``). `progress` is
    told the claim and the share of its draws done.
    """
    if draws is not None:
        draws = checks.whole("draws", draws, at_least=1, at_most=MOST_DRAWS)
    checks.whole("seed", seed, at_least=0)
    workers = checks.whole("workers", workers, at_least=1)
    jobs = [(one, draws or one.draws) for one in (chosen() if claims is None else claims)]
    if workers == 1:
        return [examine(one, count, seed, progress) for one, count in jobs]
    return _shared(jobs, seed, workers, progress)


def _shared(
    jobs: list[tuple[Claim, int]], seed: int, workers: int, progress: Callable[[Claim, float], None] | None
) -> list[Finding]:
    """The verdicts, the draws shared out to processes."""
    pieces = [(one, count, piece) for one, count in jobs for piece in _pieces(count, workers)]
    islands = [(one, count, island) for one, count in jobs if one.search for island in range(adversary.ISLANDS)]
    seen: dict[str, list[Seen]] = {one.id: [] for one, _ in jobs}
    worst: dict[str, list[Worst]] = {one.id: [] for one, _ in jobs}
    seconds = dict.fromkeys(seen, 0.0)
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with ProcessPoolExecutor(workers, spawn) as pool:
        try:
            with deaf():
                attacks = [pool.submit(_attack, one.id, count, island, seed) for one, count, island in islands]
                looks = [pool.submit(_look, one.id, *piece, seed) for one, _, piece in pieces]
            for (one, count, _), attack in zip(islands, attacks, strict=True):
                found, took = attack.result()
                worst[one.id].append(found)
                seconds[one.id] += took
                if progress is not None:
                    progress(one, _share(one, count, seen[one.id], worst[one.id]))
            for (one, count, _), look in zip(pieces, looks, strict=True):
                part, took = look.result()
                seen[one.id] += part
                seconds[one.id] += took
                if progress is not None:
                    progress(one, _share(one, count, seen[one.id], worst[one.id]))
        except BaseException as error:  # Ctrl-C above all: leaving the pool waits for its processes
            for child in multiprocessing.active_children():
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise OSError("a process that checked claims was ended, perhaps for want of memory") from None
            raise
    return [_judged(one, seen[one.id], worst[one.id], seconds[one.id]) for one, _ in jobs]


def _pieces(count: int, workers: int) -> list[tuple[int, int]]:
    """The draws from 0 to `count`, cut for the workers at whole batches."""
    size = min(max(-(-count // (4 * workers * BATCH)), 1), 40) * BATCH
    return [(low, min(low + size, count)) for low in range(0, count, size)]


def _share(one: Claim, draws: int, seen: Sequence[Seen], worst: Sequence[Worst]) -> float:
    """The share of a claim's work that is done: draws and search count one half each."""
    looked = len(seen) / draws
    return (looked + len(worst) / adversary.ISLANDS) / 2 if one.search else looked


def _attack(id: str, draws: int, island: int, seed: int) -> tuple[Worst, float]:
    """A worker's island of a claim's search, and how long it took."""
    began = time.perf_counter()
    return attack(LEDGER[id], draws, island, seed), time.perf_counter() - began


def _look(id: str, low: int, high: int, seed: int) -> tuple[list[Seen], float]:
    """A worker's piece: what the claim's check saw in these draws, and how long it took."""
    began = time.perf_counter()
    return look(LEDGER[id], low, high, seed), time.perf_counter() - began


def examine(one: Claim, draws: int, seed: int, progress: Callable[[Claim, float], None] | None = None) -> Finding:
    """One claim's verdict, in this process."""
    began = time.perf_counter()
    seen: list[Seen] = []
    worst: list[Worst] = []
    for island in range(adversary.ISLANDS if one.search else 0):
        worst.append(attack(one, draws, island, seed))
        if progress is not None:
            progress(one, _share(one, draws, seen, worst))
    for low in range(0, draws, BATCH):
        seen += look(one, low, min(low + BATCH, draws), seed)
        if progress is not None:
            progress(one, _share(one, draws, seen, worst))
    return _judged(one, seen, worst, time.perf_counter() - began)


def attack(one: Claim, draws: int, island: int, seed: int) -> Worst:
    """One island of the claim's search, with the evaluations that belong to this many draws."""
    assert one.search is not None
    rng = stream(seed, "claim", one.id, "search", island)
    return adversary.search(one.search, rng, -(-one.evaluations(draws) // adversary.ISLANDS), island)


def look(one: Claim, low: int, high: int, seed: int) -> list[Seen]:
    """What the check sees in the draws from `low` to `high`."""
    seen: list[Seen] = []
    for first in range(low, high, BATCH):
        turns = [
            Draw(number, stream(seed, "claim", one.id, number)) for number in range(first, min(first + BATCH, high))
        ]
        with np.errstate(all="ignore"):  # what is not finite is a violation, and counted
            seen += one.check(turns)
    if len(seen) != high - low:
        raise InputError(f"the check of claim {one.id} saw {len(seen)} draws of {high - low}")
    return seen


def _judged(one: Claim, seen: list[Seen], found: list[Worst], seconds: float) -> Finding:
    judged = one.judge(one, seen)
    worst = adversary.least(found) if found else None
    if worst is not None:
        judged = _overruled(one, judged, worst)
    return Finding(
        claim=one.id,
        status=one.status,
        relation=one.relation,
        verdict=judged.verdict,
        ok=judged.verdict == one.expected,
        draws=len(seen),
        margin=judged.margin,
        closeness=judged.closeness,
        searched=worst.evaluations if worst else 0,
        worst=_finite(worst.margin) if worst else None,
        worst_at=worst.at if worst and np.isfinite(worst.margin) else None,
        evidence=judged.evidence,
        sentence=one.sentence,
        seconds=seconds,
    )


def _overruled(one: Claim, judged: Judged, worst: Worst) -> Judged:
    """What the search makes of the verdict: a claim that it violates does not hold; a FALSE one it must violate too."""
    assert one.search is not None
    if one.expected == REFUTED:
        if worst.margin < -BEYOND:
            return judged._replace(evidence=f"{judged.evidence}; a cold search violates it by {-worst.margin:.1e}")
        told = f"{judged.evidence}; a cold search of {worst.evaluations:,} evaluations does not violate it"
        return judged._replace(verdict="not refuted", evidence=told)
    allowed = one.rounding if one.search.rounding is None else one.search.rounding
    if worst.margin >= -allowed:
        return judged
    told = f"the search violates it by {-worst.margin:.1e} at {worst.at}"
    return judged._replace(verdict="violated", evidence=f"{judged.evidence}; {told}")
