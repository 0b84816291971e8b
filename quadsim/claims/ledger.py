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
    """The verdict on all draws.

    Attributes
    ----------
    verdict : str
        "holds", "refuted", "undecided", "violated", "not attained" or "not refuted".
    margin : float or None
        The least slack.
    evidence : str
        One sentence.
    closeness : float, optional
        The largest gap of a tight claim.

    Examples
    --------
    >>> from quadsim.claims.ledger import Verdict
    >>> Verdict("holds", 0.1, "no violation").verdict
    'holds'
    """

    verdict: str
    margin: float | None
    evidence: str
    closeness: float | None = None


Judge = Callable[["Claim", list[Observation]], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement with its proof and its check.

    Attributes
    ----------
    id : str
        Its section and line: "5g", and "5g-lower" for a part of it.
    status : str
        PROVED, EXACT, TESTED, FALSE or PAPER.
    sentence, proof : str
    draws : int
        The number of draws that are checked by default.
    check : function
        From a list of `Draw` to the list of their `Observation`.
    judge : function
        From the claim and its observations to a `Verdict`.
    expected : str
        The verdict that the status implies.
    rounding : float
        A slack above minus this is no violation.
    tight : bool
        Whether the draws must attain equality.
    relation : str or None
        INEQUALITY, EQUALITY (an identity, an equivalence, a list of numbers) or SAMPLE; None if the claim
        is not asserted.
    search : Search or None
        An adversarial search, required of every asserted inequality.

    Examples
    --------
    >>> from quadsim import claims
    >>> claim = claims.LEDGER["1a"]
    >>> claim.status, claim.expected, claim.relation
    ('PROVED', 'holds', 'inequality')
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
        """The expected verdict if the draws confirm it; undecided if there are not enough draws.

        Too few draws can violate an asserted claim but not confirm it, and can refute a FALSE claim.

        Parameters
        ----------
        margin : float or None
        evidence : str
        confirmed : bool
            Whether the draws confirm the claim.
        enough : bool
            Whether the draws suffice to confirm it.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> from quadsim import claims
        >>> claim = claims.LEDGER["1a"]
        >>> claim.verdict(0.1, "no violation", confirmed=True).verdict
        'holds'
        >>> claim.verdict(-0.1, "violated", confirmed=False).verdict
        'violated'
        """
        if self.expected == REFUTED:
            return Verdict(REFUTED if confirmed else "not refuted" if enough else UNDECIDED, margin, evidence)
        return Verdict("violated" if not confirmed else HOLDS if enough else UNDECIDED, margin, evidence)

    def law_verdict(
        self, p_values: Sequence[float], evidence: str, *, enough: bool, consistent: bool = True
    ) -> Verdict:
        """The verdict on a probability law from the p-values of tests, with Bonferroni's correction.

        Parameters
        ----------
        p_values : list of float
        evidence : str
        enough : bool
            Whether the draws suffice to confirm the law.
        consistent : bool
            Whether everything else agrees with it.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> from quadsim import claims
        >>> claims.LEDGER["7"].law_verdict([0.2, 0.6], "two tests", enough=True).verdict
        'holds'
        """
        threshold = MIN_P_VALUE / len(p_values)
        margin = float(min(p_values)) - threshold
        evidence = f"{evidence} (margin: least p-value minus {threshold:.2g})"
        return self.verdict(margin, evidence, confirmed=consistent and margin >= 0, enough=enough)

    def evaluations(self, draws: int) -> int:
        """The evaluations of the search, in proportion to the number of draws.

        Parameters
        ----------
        draws : int

        Returns
        -------
        int

        Examples
        --------
        >>> from quadsim import claims
        >>> claim = claims.LEDGER["5b"]
        >>> claim.evaluations(claim.draws) == claim.search.evaluations
        True
        """
        return -(-self.search.evaluations * draws // self.draws) if self.search else 0


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict: one row of a table.

    Attributes
    ----------
    claim, status, relation, verdict, evidence, sentence :
        As in `Claim` and `Verdict`.
    ok : bool
        Whether the verdict is the expected one.
    draws : int
    margin : float or None
        The least slack of the draws.
    closeness : float or None
        The largest gap of a tight claim.
    searched : int
        The evaluations of the adversarial search.
    worst : float or None
        The least slack that the search confirmed.
    worst_at : dict or None
        The point with that slack.
    seconds : float

    Examples
    --------
    >>> from quadsim import claims
    >>> finding = claims.verify(claims.select(["1a"]), draws=5)[0]
    >>> finding.claim, finding.ok
    ('1a', True)
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
        """The finding as a row of a table.

        Returns
        -------
        dict

        Examples
        --------
        >>> from quadsim import claims
        >>> claims.verify(claims.select(["1a"]), draws=2)[0].row()["claim"]
        '1a'
        """
        return asdict(self)


#: The claims, by id.
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
    """Record a check in the ledger; use the decorators `proved`, `exact_result`, `tested`, `false` and `paper`.

    The first paragraph of the docstring of the check is the statement, the others are the proof. The check takes a
    `Draw` and returns an `Observation`. An asserted claim is an inequality with a search, or declares another
    ``relation``.

    Parameters
    ----------
    status : str
        PROVED, EXACT, TESTED, FALSE or PAPER; the decorators set it.
    id : str
    judge : function, optional
        By default `holds`, or `refuted` for a false statement.
    expected : str, optional
        By default the verdict that the status implies.
    batch : bool
        Whether the check takes a list of draws.
    relation : str, optional
        INEQUALITY, EQUALITY or SAMPLE.
    search : Search, optional
        The adversarial search of an inequality.
    **settings :
        Other fields of `Claim`: draws, rounding, tight.

    Returns
    -------
    function
        A decorator.

    Examples
    --------
    >>> from quadsim.claims.ledger import LEDGER, exact_result
    >>> from quadsim.claims.observations import Observation
    >>> @exact_result("99-example", draws=10, relation="equality")
    ... def squares(draw):
    ...     '''The square of a number is that of its negative.'''
    ...     x = draw.rng.standard_normal()
    ...     return Observation(-abs(x**2 - (-x) ** 2))
    >>> LEDGER.pop("99-example").sentence
    'The square of a number is that of its negative.'
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
    """The claims with these ids, in the order of the ledger.

    Parameters
    ----------
    ids : list of str, optional
        A section or a line selects its parts: 5, 5g, 5g-lower. By default all claims.

    Returns
    -------
    list of Claim

    Examples
    --------
    >>> from quadsim import claims
    >>> [claim.id for claim in claims.select(["1"])]
    ['1a', '1b', '1b-weighted', '1c', '1c-varying']
    """
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
