"""Ledger 5i and 5j: the contraction of Adam before it returns to its cycle, its underflow in float64, and ε > 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quadsim.claims.attractors import ADAM
from quadsim.claims.floors import orbit
from quadsim.claims.ledger import (
    HOLDS,
    UNDECIDED,
    Claim,
    Draw,
    Observation,
    Verdict,
    exact_result,
    false,
    tested,
)
from quadsim.engine.solver import solve
from quadsim.engine.trajectory import Status
from quadsim.optimizers import Adam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import floors

DEPTH_ERROR = 0.04  # of 5i, at β2 from 0.97 to 0.99


def _depth_law(claim: Claim, observations: list[Observation]) -> Verdict:
    """The mean depth at each β2, relative to the law."""
    parts, worst, unsure = [], 0.0, 0.0
    for beta2 in sorted({one.value[0] for one in observations}):
        ratios = np.array([one.value[1] for one in observations if one.value[0] == beta2])
        error = float(ratios.std(ddof=1) / np.sqrt(ratios.size)) if ratios.size > 1 else np.inf
        parts.append(f"{ratios.mean():.4f} of the law at β2 = {beta2}")
        worst, unsure = max(worst, abs(float(ratios.mean()) - 1)), max(unsure, error)
    verdict = UNDECIDED if unsure > DEPTH_ERROR / 4 else HOLDS if worst < DEPTH_ERROR else "violated"
    return Verdict(verdict, DEPTH_ERROR - worst, ", ".join(parts))


@tested("5i", draws=200, judge=_depth_law, relation="sample", batch=True)
def contraction(draws: Sequence[Draw]) -> list[Observation]:
    """In one dimension, from |w₀| ≫ lr and v₀ = g₀², Adam (β1 = 0, ε = 0) first contracts far below its cycle: ln(least
    |w|/lr) ≈ −π²/(2 ln(1/β2)), within 4% on average at β2 from 0.97 to 0.99.

    When w arrives at the minimum from afar, v is still large, and w shrinks by |1 − lr/√v| in a step, lr·λ in place of
    lr for other curvatures. v now only decays, x = lr/√v grows by the factor β2^(−½) a step, and w shrinks until x = 2.
    The sum of ln|1−x| over these steps is, for β2 → 1, (2/ln(1/β2))·∫₀² ln|1−x| dx/x, and that integral is −π²/6 from 0
    to 1 and −π²/12 from 1 to 2: together −π²/2 over ln(1/β2).

    From starts of 30 to 300 lr the depth is on average 2.7% short of it at β2 = 0.97, 2.1% at 0.98, 1.3% at 0.99; in
    logarithms, which can hold it, 0.6% at 0.999 (measured once). A step with x near 1 may make single runs deeper. Then
    w grows again, and ends on ±lr/2.
    """
    beta2 = np.array([[(0.97, 0.98, 0.99)[draw.number % 3]] for draw in draws])
    e = np.array([[np.exp(draw.rng.uniform(np.log(30), np.log(300)))] for draw in draws])
    curvature = np.array([[[np.exp(draw.rng.uniform(-3, 3))]] for draw in draws])
    least = np.abs(e)
    for here, _, _ in orbit(curvature, e, 1.0, 0.0, beta2, 4000):
        least = np.minimum(least, np.abs(here))
    return [
        Observation(value=(float(b[0]), float(np.log(low[0]) / floors.contraction_depth(float(b[0])))))
        for b, low in zip(beta2, least, strict=True)
    ]


TRAP = {0.992: (0.0, 0.0), 0.993: (0.5, 1.0), 0.999: (0.9, 1.0)}  # the least and largest share that the claim allows


def _shares(claim: Claim, observations: list[Observation]) -> Verdict:
    """The share of runs that left float64's range at each β2, against the stated ones."""
    verdicts, parts, margin = [], [], np.inf
    for beta2, (low, high) in TRAP.items():
        share = float(np.mean([one.value[beta2] for one in observations]))
        # a share of 0 or 1 is known to about 1/draws
        error = float(np.sqrt(max(share * (1 - share), 1 / len(observations)) / len(observations)))
        parts.append(f"{share:.1%} at β2 = {beta2}")
        room = share - low if high > 0 else -share
        margin = min(margin, room)
        outside = room < -2 * error if high > 0 else share > 0
        unsure = room < 2 * error if high > 0 else len(observations) < 30
        verdicts.append("violated" if outside else UNDECIDED if unsure else HOLDS)
    worst = next((word for word in ("violated", UNDECIDED) if word in verdicts), HOLDS)
    return Verdict(worst, margin, "underflow in " + ", ".join(parts))


@tested("5i-trap", draws=600, judge=_shares, relation="sample", batch=True)
def underflow(draws: Sequence[Draw]) -> list[Observation]:
    """In one dimension with lr = 0.01 and Gaussian starts, Adam (β1 = 0, ε = 0, bias correction) leaves float64's range
    (|w| < 1e-290) in no run at β2 = 0.992, in most at 0.993 and in more than 90% at 0.999.

    By 5i, lr·exp(−π²/(2 ln(1/β2))) is 1e-290 at β2 = 0.9926, and less beyond. The runs that do not get there started
    within about lr, where v is too small from the start for a long contraction. From 1e-290 on, the gradient's digits
    go; from β2 = 0.9934 on w would become 0 exactly, and stay there. The solver stops before, with the status
    "underflow". An earlier figure, 0% at 0.993, counted exact zeros; here it is whatever falls below 1e-290.
    """
    problem = BlockQuadratic.from_blocks([[[1.0]]])
    starts = [draw.rng.standard_normal(1) for draw in draws]
    ended: list[dict[float, bool]] = [{} for _ in draws]
    for beta2 in TRAP:
        adam = Adam(lr=0.01, beta1=0.0, beta2=beta2, eps=0.0)
        runs = solve(problem, [adam], w0=starts, tol=0, max_steps=12_000, threads=1)
        for one, run in zip(ended, runs, strict=True):
            one[beta2] = run.status is Status.UNDERFLOW
    return [Observation(value=one) for one in ended]


def _came_back(claim: Claim, observations: list[Observation]) -> Verdict:
    """Refuted if every run is back on ±lr/2."""
    off = max(abs(one.value - 1) for one in observations)
    evidence = f"all runs end on ±lr/2, to {off:.1e}" if off < 1e-2 else f"one is off ±lr/2 by {off:.1e}"
    return claim.verdict(-off, evidence, confirmed=off < 1e-2)


@false("5i-spurious", draws=50, judge=_came_back, batch=True)
def seeming_convergence(draws: Sequence[Draw]) -> list[Observation]:
    """Adam with β1 = 0, β2 = 0.999 and ε = 0 converges to the minimum of a parabola.

    5b forbids it; the convergence that float64 shows is underflow (5i-trap). In logarithms the same runs return: x =
    ln|w| and y = ln v follow y ← ln(β2e^y + (1−β2)e^(2x)) and x ← x + ln|1 − lr·e^(−y/2)|, go down to about −4900, come
    back, and end on |w| = lr/2. In float64 runs that start within 0.3 to 0.7 lr do so too, since v is small from the
    start. (From about 0.8 lr on they underflow: measured once.)
    """
    lr, beta2, steps = 0.01, 0.999, 60_000
    far = np.array([abs(draw.rng.standard_normal()) + 3 * lr for draw in draws])
    x = np.log(far)
    y = 2 * x
    for _ in range(steps):
        y = np.logaddexp(np.log(beta2) + y, np.log1p(-beta2) + 2 * x)
        x = x + np.log(np.abs(1 - lr * np.exp(-y / 2)))
    starts = [lr * draw.rng.uniform(0.3, 0.7, 1) for draw in draws]
    problem, adam = BlockQuadratic.from_blocks([[[1.0]]]), replace(ADAM, lr=lr, beta2=beta2)
    runs = solve(problem, [adam], w0=starts, tol=0, max_steps=steps, threads=1)
    ends = np.stack([np.exp(x), [abs(run.w[0]) for run in runs]]) / (lr / 2)
    return [Observation(value=float(pair[np.abs(pair - 1).argmax()])) for pair in ends.T]


@exact_result("5j", draws=300, relation="equality")
def epsilon(draw: Draw) -> Observation:
    """With β1 = 0 and ε > 0, in one dimension, Adam's only 2-cycle has the amplitude lr/2 − ε/λ, if that is positive;
    from every start it converges to the minimum if ε ≥ lr·λ/2, and if ε < lr·λ/2 it does not, unless it lands on it
    exactly.

    On a 2-cycle the gradient alternates between p and q, with v as in 5c, and the steps must cancel: |p|/(√v_p + ε) =
    |q|/(√v_q + ε). If |p| > |q| then |p|√v_q ≥ |q|√v_p, as p²(q² + β2p²) ≥ q²(p² + β2q²), and |p|ε > |q|ε: no equality.
    So q = −p, v = p², and a step lr·λa/(λa + ε) = 2a gives a = lr/2 − ε/λ, if that is positive.

    If ε ≥ lr·λ/2, a step multiplies e by 1 − lr·λ/(√v + ε), which is between −1 and 1, so |e| decreases. Were its limit
    a > 0, v would tend to λ²a² and the factor to −1: √v + ε = lr·λ/2 < λa + ε, a contradiction. So e → 0. If ε < lr·λ/2
    and e → 0 without being 0, then v → 0 and the factor tends to 1 − lr·λ/ε < −1: |e| grows, a contradiction. (That
    runs end on the cycle is measured.)
    """
    rng = draw.rng
    lr, curvature, beta2 = (
        float(np.exp(rng.uniform(-4, 1))),
        float(np.exp(rng.uniform(-3, 3))),
        float(rng.uniform(0.1, 0.98)),
    )
    # away from the edge, where runs are slow
    share = float(rng.choice([rng.uniform(0, 0.9), rng.uniform(1.1, 3)]))
    eps = share * lr * curvature / 2
    adam = Adam(lr=lr, beta1=0.0, beta2=beta2, eps=eps, init="gradient")
    start = lr * rng.standard_normal(1) * float(rng.choice([1, 10]))
    w = solve(BlockQuadratic.from_blocks([[[curvature]]]), adam, w0=start, tol=0, max_steps=20_000).w
    return Observation(-abs(abs(float(w[0])) - floors.amplitude_1d(lr, eps, curvature)) / lr)
