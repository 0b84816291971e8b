"""Ledger 5i and 5j: the contraction of Adam before its 2-cycle, underflow in float64, and ε > 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quadsim.claims.attractors import ADAM
from quadsim.claims.floors import orbit
from quadsim.claims.ledger import HOLDS, UNDECIDED, Claim, Verdict, exact_result, false, tested
from quadsim.claims.observations import Draw, Observation, standard_error, values_of
from quadsim.claims.sampling import one_block
from quadsim.engine.solver import solve
from quadsim.engine.trajectory import Status
from quadsim.optimizers import Adam
from quadsim.theory import floors

DEPTH_ERROR = 0.04  # of 5i, at β2 from 0.97 to 0.99
PARABOLA = one_block([[1.0]])


def _depth_law(claim: Claim, observations: list[Observation]) -> Verdict:
    """The mean depth at each β2, relative to the law."""
    parts, worst, error = [], 0.0, 0.0
    for beta2 in sorted({one.value[0] for one in observations}):
        ratios = np.array([one.value[1] for one in observations if one.value[0] == beta2])
        parts.append(f"{ratios.mean():.4f} of the law at β2 = {beta2}")
        worst, error = max(worst, abs(ratios.mean() - 1)), max(error, standard_error(ratios))
    verdict = UNDECIDED if error > DEPTH_ERROR / 4 else HOLDS if worst < DEPTH_ERROR else "violated"
    return Verdict(verdict, DEPTH_ERROR - worst, ", ".join(parts))


@tested("5i", draws=200, judge=_depth_law, relation="sample", batch=True)
def contraction(draws: Sequence[Draw]) -> list[Observation]:
    """In one dimension, from |w₀| ≫ lr and v₀ = g₀², Adam (β1 = 0, ε = 0) first contracts far below its cycle: ln(least
    |w|/lr) ≈ −π²/(2 ln(1/β2)), within 4% on average at β2 from 0.97 to 0.99.

    When w arrives near the minimum from far away, v is still large, and a step multiplies |w| by |1 − lr/√v| (lr·λ in
    place of lr for other curvatures). From then on v only decays, x = lr/√v grows by the factor β2^(−½) per step, and
    |w| shrinks until x = 2. For β2 → 1 the sum of ln|1−x| over these steps is (2/ln(1/β2))·∫₀² ln|1−x| dx/x, and this
    integral is −π²/6 from 0 to 1 and −π²/12 from 1 to 2: together −π²/(2 ln(1/β2)).

    From starts of 30 to 300 lr the mean depth is less than this by 2.7% at β2 = 0.97, 2.1% at 0.98 and 1.3% at 0.99;
    computed in logarithms, which do not underflow, by 0.6% at 0.999 (measured once). A step with x near 1 may make
    single runs deeper. Then |w| grows again, and ends at lr/2.
    """
    beta2 = np.array([[(0.97, 0.98, 0.99)[draw.number % 3]] for draw in draws])
    e = np.array([[np.exp(draw.rng.uniform(np.log(30), np.log(300)))] for draw in draws])
    curvature = np.array([[[np.exp(draw.rng.uniform(-3, 3))]] for draw in draws])
    least = np.abs(e)
    for w, _, _ in orbit(curvature, e, 1.0, beta2, 4000):
        least = np.minimum(least, np.abs(w))
    depths = zip(beta2[:, 0].tolist(), np.log(least[:, 0]).tolist(), strict=True)
    return [Observation(value=(beta2, depth / floors.contraction_depth(beta2))) for beta2, depth in depths]


TRAP = {0.992: (0.0, 0.0), 0.993: (0.5, 1.0), 0.999: (0.9, 1.0)}  # the least and largest share that the claim allows


def _shares(claim: Claim, observations: list[Observation]) -> Verdict:
    """The share of runs that left the range of float64 at each β2, against the stated shares."""
    verdicts, parts, margin, draws = set(), [], np.inf, len(observations)
    for (beta2, (low, high)), share in zip(TRAP.items(), values_of(observations).mean(axis=0), strict=True):
        error = np.sqrt(max(share * (1 - share), 1 / draws) / draws)  # a share of 0 or 1 is known to about 1/draws
        parts.append(f"{share:.1%} at β2 = {beta2}")
        slack = share - low if high > 0 else -share
        margin = min(margin, slack)
        violated = slack < -2 * error if high > 0 else share > 0
        uncertain = slack < 2 * error if high > 0 else draws < 30
        verdicts.add("violated" if violated else UNDECIDED if uncertain else HOLDS)
    worst = next(verdict for verdict in ("violated", UNDECIDED, HOLDS) if verdict in verdicts)
    return Verdict(worst, margin, "underflow in " + ", ".join(parts))


@tested("5i-trap", draws=600, judge=_shares, relation="sample", batch=True)
def underflow(draws: Sequence[Draw]) -> list[Observation]:
    """In one dimension with lr = 0.01 and Gaussian starts, Adam (β1 = 0, ε = 0, bias correction) leaves the range of
    float64 (|w| < 1e-290) in no run at β2 = 0.992, in most runs at 0.993 and in more than 90% at 0.999.

    By 5i, lr·exp(−π²/(2 ln(1/β2))) is 1e-290 at β2 = 0.9926, and less for larger β2. The runs that do not reach it
    started within about lr, where v is too small from the start for a long contraction. Below 1e-290 the gradient loses
    digits; for β2 ≥ 0.9934 w would become exactly 0 and stay there. The solver stops before that, with the status
    "underflow". An earlier figure, 0% at 0.993, counted exact zeros; here every run that falls below 1e-290 counts.
    """
    starts = [draw.rng.standard_normal(1) for draw in draws]
    underflows = []
    for beta2 in TRAP:
        adam = Adam(lr=0.01, beta1=0.0, beta2=beta2, eps=0.0)
        runs = solve(PARABOLA, [adam], w0=starts, tol=0, max_steps=12_000, threads=1)
        underflows.append([run.status is Status.UNDERFLOW for run in runs])
    return [Observation(value=value) for value in zip(*underflows, strict=True)]


def _came_back(claim: Claim, observations: list[Observation]) -> Verdict:
    """Refuted if every run ends on ±lr/2."""
    off = np.abs(values_of(observations) - 1).max()
    evidence = f"all runs end on ±lr/2, to {off:.1e}" if off < 1e-2 else f"a run deviates from ±lr/2 by {off:.1e}"
    return claim.verdict(-off, evidence, confirmed=off < 1e-2)


@false("5i-spurious", draws=50, judge=_came_back, batch=True)
def seeming_convergence(draws: Sequence[Draw]) -> list[Observation]:
    """Adam with β1 = 0, β2 = 0.999 and ε = 0 converges to the minimum of a parabola.

    5b excludes it; the apparent convergence in float64 is underflow (5i-trap). In logarithms the same runs return: x =
    ln|w| and y = ln v follow y ← ln(β2e^y + (1−β2)e^(2x)) and x ← x + ln|1 − lr·e^(−y/2)|; x decreases to about −4900,
    returns, and ends at |w| = lr/2. So do float64 runs that start within 0.3 to 0.7 lr, since v is small from the
    start. (Starts of about 0.8 lr and more underflow: measured once.)
    """
    lr, beta2, steps = 0.01, 0.999, 60_000
    x = np.log([abs(draw.rng.standard_normal()) + 3 * lr for draw in draws])
    y = 2 * x
    for _ in range(steps):
        y = np.logaddexp(np.log(beta2) + y, np.log1p(-beta2) + 2 * x)
        x = x + np.log(np.abs(1 - lr * np.exp(-y / 2)))
    starts = [lr * draw.rng.uniform(0.3, 0.7, 1) for draw in draws]
    runs = solve(PARABOLA, [replace(ADAM, lr=lr, beta2=beta2)], w0=starts, tol=0, max_steps=steps, threads=1)
    ends = np.stack([np.exp(x), [abs(run.w[0]) for run in runs]]) / (lr / 2)
    return [Observation(value=float(pair[np.abs(pair - 1).argmax()])) for pair in ends.T]


@exact_result("5j", draws=300, relation="equality")
def epsilon(draw: Draw) -> Observation:
    """With β1 = 0 and ε > 0, in one dimension, Adam's only 2-cycle has the amplitude lr/2 − ε/λ, if that is positive.
    From every start Adam converges to the minimum if ε ≥ lr·λ/2; if ε < lr·λ/2 it does not, unless it reaches the
    minimum exactly.

    On a 2-cycle the gradient alternates between p and q, with v as in 5c, and the steps must cancel: |p|/(√v_p + ε) =
    |q|/(√v_q + ε). If |p| > |q| then |p|√v_q ≥ |q|√v_p, as p²(q² + β2p²) ≥ q²(p² + β2q²), and |p|ε > |q|ε, so equality
    is impossible. So q = −p, v = p², and the step lr·λa/(λa + ε) = 2a gives a = lr/2 − ε/λ, if that is positive.

    If ε ≥ lr·λ/2, a step multiplies e by 1 − lr·λ/(√v + ε), which is between −1 and 1, so |e| decreases. If its limit
    were a > 0, v would tend to λ²a² and the factor to −1: √v + ε = lr·λ/2 < λa + ε, a contradiction. So e → 0. If ε <
    lr·λ/2 and e → 0 without being 0, then v → 0 and the factor tends to 1 − lr·λ/ε < −1: |e| grows, a contradiction.
    (That runs end on the cycle is measured.)
    """
    rng = draw.rng
    lr, curvature, beta2 = np.exp(rng.uniform(-4, 1)), np.exp(rng.uniform(-3, 3)), rng.uniform(0.1, 0.98)
    share = float(rng.choice([rng.uniform(0, 0.9), rng.uniform(1.1, 3)]))  # not near 1, where runs are slow
    eps = share * lr * curvature / 2
    adam = Adam(lr=lr, beta1=0.0, beta2=beta2, eps=eps, init="gradient")
    start = lr * rng.standard_normal(1) * rng.choice([1, 10])
    w = solve(one_block([[curvature]]), adam, w0=start, tol=0, max_steps=20_000).w
    return Observation(-abs(abs(w[0]) - floors.amplitude_1d(lr, eps, curvature)) / lr)
