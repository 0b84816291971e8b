"""The ledger as a Markdown document: each claim with its proof and the evidence of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadsim._format import scientific
from quadsim._validation import InputError
from quadsim.claims.ledger import LEDGER, section

SECTIONS = {
    "1": "Gradient descent",
    "2": "Frozen Adam: β2 = 1",
    "3": "Gradient descent, block by block",
    "4": "Momentum",
    "5": "Adam with β2 < 1 and a constant learning rate",
    "6": "Invariances",
    "7": "Diagonal Hessians",
    "8": "The rotation axis in two dimensions",
    "9": "Closed forms",
    "10": "The Zipf bigram model",
}
INTRODUCTION = """\
# The ledger of claims

Results on optimizers for block-diagonal quadratics: each statement with its proof and the measured evidence.

**Setting.** The loss is ½eᵀHe with e = w − w⋆, H = blockdiag(H_1, …, H_B) positive definite, block sizes n_l, d = Σ
n_l. μ and L are the extreme eigenvalues of H with unit eigenvectors u_μ and u_L, κ = L/μ; μ_l, L_l and κ_l are
those of block l. The gradient is g = He; at step t the loss is loss[t] and the gradient g_t. lr is the learning rate;
eps is 2.2·10⁻¹⁶.

**Frozen Adam** is that of the paper: β2 = 1, v = g₀², ε = 0, no bias correction, no zero component of g₀. D = diag|g₀|,
S = D^-½HD^-½ with extreme eigenvalues s_min and s_max, κ_eff = s_max/s_min. C_{l,1} and C_{l,2} are the least and the
largest |g₀| of block l divided by L_l, and r = max_l C_{l,2}²/min_l C_{l,1}².

**In section 5** Adam has no bias correction unless stated, and 0/0 = 0. SDP(H) = max{⟨H, X⟩ : X ⪰ 0, X_ii = 1} =
min{ΣΛ_i : diag(Λ) ⪰ H}.

**Status.** PROVED: a proof is given. EXACT: an identity or a law, with proof. TESTED: no proof, only evidence. FALSE:
refuted; the run below found a counterexample. PAPER: a sentence of *Why Transformers Need Adam* (arXiv 2402.16788),
with a verdict on the stated reading of it.

**Evidence.** The check of a claim draws random problems (the four cases, condition numbers, sizes, rotations, scales,
starts) and compares the statement with runs of the solver, closed forms or explicit formulas. *Margin* is the least
slack relative to the bound; it may be negative within rounding. For an identity it is minus the largest deviation; for
a law, a p-value minus its threshold, or as the evidence states. *Equality to* is the largest distance from equality
among the draws that are constructed to attain a tight bound.

**Search.** Random draws are weak evidence for an inequality, so each asserted inequality is also searched for
violations: differential evolution over the problem, the start and the settings, from a cold start, in four islands,
then the Nelder–Mead method; a margin that comes from a run is confirmed by a longer run. *Worst found* is the smallest
margin, *searched* the number of evaluations. False bounds that random draws did not refute serve as negative controls:
the same search must violate them (5g-constant, 5g-envelope, 5g-lower).

Numbers marked "measured once" are not recomputed by the check. To check a claim: `python -m quadsim verify claim=2b
draws=100000 seed=7`.
"""


def render(findings: Sequence[dict[str, Any]], made: dict[str, Any]) -> str:
    """The document for these findings (rows of `Finding`); `made` has the command, the seed and the versions."""
    known = {row["claim"] for row in findings}
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in findings:
        if row["claim"] not in LEDGER:
            raise InputError(f"no claim {row['claim']!r} is in the ledger")
        sections.setdefault(str(section(LEDGER[row["claim"]])), []).append(row)
    versions = ", ".join(f"{name} {number}" for name, number in made["versions"].items())
    parts = [
        INTRODUCTION,
        f"This document: `{made['command']}`, seed {made['seed']}, {versions}.\n",
        _overview(findings),
    ]
    for number in SECTIONS:
        if number in sections:
            parts.append(f"## {number}. {SECTIONS[number]}\n")
            parts += [_entry(row) for row in sections[number]]
    missing = [key for key in LEDGER if key not in known]
    if missing:
        parts.append(f"Not in this run: {', '.join(missing)}.\n")
    return "\n".join(parts)


def _overview(findings: Sequence[dict[str, Any]]) -> str:
    names = ["claim", "status", "verdict", "draws", "margin", "equality to", "searched", "worst found"]
    lines = [f"| {' | '.join(names)} |", "|" + len(names) * "---|"]
    for row in findings:
        cells = [f"[{row['claim']}](#{_anchor(row)})", row["status"], row["verdict"], f"{row['draws']:,}"]
        cells += [scientific(row["margin"]), scientific(row["closeness"])]
        cells += [f"{row['searched']:,}" if row["searched"] else "", scientific(row["worst"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _anchor(row: dict[str, Any]) -> str:
    """The anchor that Markdown renderers give to the heading of an entry."""
    return f"claim-{row['claim']}-{row['status'].lower()}"


def _entry(row: dict[str, Any]) -> str:
    one = LEDGER[row["claim"]]
    label = {"FALSE": "Counterexample.", "TESTED": "Reason.", "PAPER": "Result."}.get(one.status, "Proof.")
    numbers = [f"{row['draws']:,} draws"]
    if row["margin"] is not None:
        numbers.append(f"margin {scientific(row['margin'])}")
    if row["closeness"] is not None:
        numbers.append(f"equality to {scientific(row['closeness'])}")
    if row["searched"]:
        worst = "no admissible point" if row["worst"] is None else f"worst margin {scientific(row['worst'])}"
        numbers.append(f"{row['searched']:,} evaluations of the search, {worst}")
    return (
        f"### Claim {one.id} ({one.status})\n\n**{_plain(one.sentence)}**\n\n*{label}* {_plain(one.proof)}\n\n"
        f"*Evidence.* {row['verdict'].capitalize()}: {row['evidence']} ({', '.join(numbers)}).\n"
    )


def _plain(text: str) -> str:
    """Escape underscores and stars, which are formulas, not markup."""
    return text.replace("_", "\\_").replace("*", "\\*")
