"""The ledger: claims, the decorator that records them, and the rules that turn observations into a verdict.

A check examines draws, one by one or in batches, and returns an `Observation` for each: the slack of the claim there. A
judge turns the observations into a `Verdict`. The claims are in the other modules of this package; `verification` runs
them.
"""

from __future__ import annotations

import difflib
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.claims.adversary import Search
from quadsim.claims.observations import Draw, Observation, least_slack

PROVED, EXACT, TESTED, FALSE, PAPER = "PROVED", "EXACT", "TESTED", "FALSE", "PAPER"
INEQUALITY, EQUALITY, SAMPLE = "inequality", "equality", "sample"  # SAMPLE: a statement about a probability law
HOLDS, REFUTED, UNDECIDED = "holds", "refuted", "undecided"
ROUNDING = 1e-9  # a loss ratio after some steps of the solver has an error of a few eps·κ, κ up to a million
TIGHT_TOL = 1e-6  # a tight bound must be met to this accuracy by every draw that is constructed to attain it
MIN_VIOLATION = 1e-6  # a counterexample must violate the claim by more than this
MIN_P_VALUE = 1e-6  # a true law is reported as violated for one seed in a million


class Verdict(NamedTuple):
    """The verdict on all draws. ``closeness`` is the largest gap of a tight claim."""

    verdict: str
    margin: float | None
    evidence: str
    closeness: float | None = None


Judge = Callable[["Claim", list[Observation]], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement with its check. ``expected`` is the verdict that the claim's status implies.

    ``relation``: INEQUALITY, EQUALITY (an identity, an equivalence, a list of numbers) or SAMPLE; None if the claim
    is not asserted. ``search``: an adversarial search, required of every asserted inequality.
    """

    id: str
    status: str
    sentence: str
    proof: str
    draws: int
    check: Callable[[Sequence[Draw]], list[Observation]]
    judge: Judge
    expected: str
    rounding: float = ROUNDING
    tight: bool = False
    relation: str | None = None
    search: Search | None = None

    def verdict(self, margin: float | None, evidence: str, *, confirmed: bool, enough: bool = True) -> Verdict:
        """The expected verdict if the draws confirm it; undecided if there are not ``enough`` draws.

        Too few draws can violate an asserted claim but not confirm it, and can refute a FALSE claim.
        """
        if self.expected == REFUTED:
            return Verdict(REFUTED if confirmed else "not refuted" if enough else UNDECIDED, margin, evidence)
        return Verdict("violated" if not confirmed else HOLDS if enough else UNDECIDED, margin, evidence)

    def law_verdict(
        self, p_values: Sequence[float], evidence: str, *, enough: bool, consistent: bool = True
    ) -> Verdict:
        """The verdict on a probability law from the p-values of tests, with Bonferroni's correction."""
        threshold = MIN_P_VALUE / len(p_values)
        margin = float(min(p_values)) - threshold
        evidence = f"{evidence} (margin: least p-value minus {threshold:.2g})"
        return self.verdict(margin, evidence, confirmed=consistent and margin >= 0, enough=enough)

    def evaluations(self, draws: int) -> int:
        """Evaluations of the search, in proportion to the number of draws."""
        return -(-self.search.evaluations * draws // self.draws) if self.search else 0


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict: one row of a table.

    ``margin`` is the least slack of the draws; ``worst`` is the least slack that the adversarial search confirmed, at
    the point ``worst_at``, after ``searched`` evaluations.
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
    status: str,
    id: str,
    *,
    judge: Judge | None = None,
    expected: str | None = None,
    batch: bool = False,
    relation: str | None = None,
    search: Search | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Record a check in the ledger. It takes a `Draw`, or a list of them (``batch``).

    The first paragraph of its docstring is the statement, the others are the proof. An asserted claim is an inequality
    with a search, or declares another ``relation``. ``settings`` are other fields of `Claim`: draws, rounding, tight.
    Use the decorators `proved`, `exact_result`, `tested`, `false` and `paper`, which set the status.
    """
    relation = INEQUALITY if search is not None else relation
    if status in (PROVED, EXACT, TESTED) and (relation is None or (relation == INEQUALITY and search is None)):
        raise InputError(f"claim {id} needs search=Search(...), or relation=EQUALITY or SAMPLE if it is no inequality")

    def record(function: Callable[..., Any]) -> Callable[..., Any]:
        sentence, *proof = (" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n"))
        verdict = expected or (REFUTED if status == FALSE else HOLDS)
        LEDGER[id] = Claim(
            id=id,
            status=status,
            sentence=sentence,
            proof="\n\n".join(proof),
            check=function if batch else lambda draws: [function(draw) for draw in draws],
            judge=judge or (refuted if verdict == REFUTED else holds),
            expected=verdict,
            relation=relation,
            search=search,
            **settings,
        )
        return function

    return record


proved, exact_result, tested, false, paper = (
    functools.partial(claim, status) for status in (PROVED, EXACT, TESTED, FALSE, PAPER)
)


def holds(claim: Claim, observations: list[Observation]) -> Verdict:
    """Judge a statement about all draws: no violation beyond rounding; if the claim is tight, all gaps are small."""
    margin = least_slack(observations)
    gaps = [one.gap for one in observations if one.gap is not None]
    closeness = float(max(gaps)) if gaps else None
    if not margin >= -claim.rounding:
        violations = sum(not one.slack >= -claim.rounding for one in observations)
        verdict, evidence = "violated", f"{violations:,} of {len(observations):,} draws violate it"
    elif claim.tight and (closeness is None or not closeness <= TIGHT_TOL):
        verdict = "not attained"
        evidence = "no draw attains it" if closeness is None else f"equality is missed by {closeness:.1e}"
    else:
        verdict = HOLDS
        evidence = f"equal to within {-margin:.1e}" if claim.status == EXACT and margin < 0 else "no violation"
        evidence += "" if closeness is None else ", equality attained"
    return Verdict(verdict, margin, evidence, closeness)


def refuted(claim: Claim, observations: list[Observation]) -> Verdict:
    """Judge a false statement: one draw refutes it by a violation beyond rounding."""
    count = sum(one.slack < -MIN_VIOLATION for one in observations)
    evidence = f"{count:,} of {len(observations):,} draws contradict it"
    return claim.verdict(least_slack(observations), evidence, confirmed=count > 0)


def refuted_as_stated(claim: Claim, observations: list[Observation]) -> Verdict:
    """Judge a false statement with stated counterexamples: each violates it, and has the stated number (``value``)."""
    verdict = refuted(claim, observations)
    if not all(one.value and one.slack < -MIN_VIOLATION for one in observations):
        return verdict._replace(verdict="not refuted", evidence="a counterexample does not have the stated number")
    return verdict._replace(evidence=verdict.evidence + ", with the stated numbers")


def select(ids: Iterable[str] | None = None) -> list[Claim]:
    """The claims with these ids, in the order of the ledger. A section or a line selects its parts: 5, 5g, 5g-lower."""
    selected = dict(LEDGER) if ids is None else {}
    for asked in ids or ():
        matches = [key for key in LEDGER if _belongs(key, asked.lower())]
        if not matches:
            close = difflib.get_close_matches(asked, LEDGER, n=1, cutoff=0.3)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(f"unknown claim {checks.shown(asked)}: {hint}python -m quadsim list claims shows them all")
        selected |= {key: LEDGER[key] for key in matches}
    return sorted(selected.values(), key=_sort_key)


def section(claim: Claim) -> int:
    """The number at the start of the id."""
    return int("".join(itertools.takewhile(str.isdigit, claim.id)))


def _sort_key(claim: Claim) -> tuple[int, str]:
    """Section, then line: 2a, 2b, …, then claims about the section as a whole."""
    number = section(claim)
    line = claim.id.removeprefix(str(number))[:1]
    return number, line if line.isalpha() else "~"


def _belongs(key: str, asked: str) -> bool:
    """Whether claim `key` is `asked` or a part of it: 5g-lower is a part of 5g, 5g of 5, but 10 not of 1."""
    rest = key.removeprefix(asked)
    return key == asked or (rest != key and (rest[0] == "-" or (asked.isdigit() and not rest[0].isdigit())))
