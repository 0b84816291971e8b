"""Ledger 5a to 5f: what Adam at a constant learning rate cannot do, its 2-cycles, and how much they oscillate.

Here ε = 0, and β1 = 0 unless said. Where runs end up is the matter of `attractors`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quadsim.claims.adversary import Axis, Matrix, Search
from quadsim.claims.ledger import EQUALITY, EXACT, FALSE, PROVED, Draw, Seen, claim
from quadsim.claims.orbits import long_run
from quadsim.claims.sampling import one_block, some_block, some_problem, some_start
from quadsim.optimizers import GD, Adam, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.solver import solve
from quadsim.theory import floors, sdp

RETURNS = 1e-3  # relative to lr: points that come back this closely do; steps that differ in a sign are off by 2 lr


@claim(
    "5a",
    EXACT,
    "For any algorithm, two consecutive losses average ⅛ΔᵀHΔ + ½cᵀHc, with Δ the step between the two points and c "
    "their midpoint's error.",
    draws=400,
    relation=EQUALITY,
)
def two_losses(draw: Draw) -> Seen:
    """Put e = c + Δ/2 and e′ = c − Δ/2. In the sum of eᵀHe and e′ᵀHe′ the mixed terms cancel, which is the
    parallelogram law: ½(½eᵀHe + ½e′ᵀHe′) = ½cᵀHc + ⅛ΔᵀHΔ. Nothing is asked of the step. So whoever takes steps of a
    fixed size pays ⅛ΔᵀHΔ for them in every pair of steps, however well its midpoints do.
    """
    rng = draw.rng
    problem, beta2 = some_problem(rng, most_kappa=1e4), float(rng.uniform(0, 0.999))
    kinds: list[Optimizer] = [
        GD(), BlockGD(), HeavyBall(), Nesterov(), FrozenAdam(), Adam(lr=0.1, beta1=0.0, beta2=0.0, eps=0.0),
        Adam(lr=0.1, beta2=beta2), Adam(lr=0.1, beta1=0.0, beta2=beta2, eps=0.0, init="gradient"),
    ]  # fmt: skip
    kind, t, start = kinds[int(rng.integers(len(kinds)))], int(rng.integers(8)), some_start(rng, problem)
    here, there = (solve(problem, kind, w0=start, tol=0, max_steps=steps) for steps in (t, t + 1))
    if here.last_step != t or there.last_step != t + 1:  # it has reached the minimizer
        return Seen()
    e, after = here.w - problem.minimizer, there.w - problem.minimizer
    step, middle = e - after, (e + after) / 2
    split = step @ problem.curvature(step) / 8 + middle @ problem.curvature(middle) / 2
    # The final point is the error plus the minimizer, rounded: losses are known to that only.
    size = float(np.abs(problem.minimizer).max() / max(np.abs(e).max(), np.abs(after).max()))
    average = (here.loss[-1] + there.loss[-1]) / 2
    return Seen(-max(0.0, abs(split / average - 1) - 1e-13 * size * problem.kappa))


def _sign_descent(h: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Room above 5a-sign's bound in any of 60 steps at lr = 1; infinite where a gradient is exactly zero."""
    bound = h.shape[1] * np.linalg.eigvalsh(h)[:, 0] / 8
    room, before = np.full(len(e), np.inf), np.full(len(e), np.nan)
    for _ in range(60):
        g = np.einsum("kij,kj->ki", h, e)
        loss = (e * g).sum(axis=1) / 2
        room = np.fmin(room, (loss + before) / 2 / bound - 1)
        room = np.where((g == 0).any(axis=1), np.inf, room)
        e, before = e - np.sign(g), np.where((g == 0).any(axis=1), np.nan, loss)
    return room


@claim(
    "5a-sign",
    PROVED,
    "Sign descent, which is Adam with β1 = β2 = 0 and ε = 0, averages a loss of at least (lr²/8) Σ n_l μ_l over any "
    "two consecutive steps, as long as no coordinate of the gradient is exactly zero.",
    draws=300,
    tight=True,
    search=Search([Matrix("h", 3), Axis("e", -2, 2, 3)], _sign_descent, batch=True),
)
def sign_descent(draw: Draw) -> Seen:
    """A step is Δ = lr·s with s the signs of the gradient, so by 5a two losses average at least (lr²/8) sᵀHs, and in
    block l sᵀHs ≥ n_l μ_l. Equality: a block whose lowest eigenvector is a sign vector s, from e = (lr/2)s, where the
    midpoint is the minimizer.

    A coordinate whose gradient is exactly zero does not move, and pays nothing; an earlier statement had no such
    exception. H = I in two dimensions, lr = 0.5 and e₀ = (1, 0.25): the first coordinate is at 0 after two steps, the
    second alternates between ±0.25, and two losses average 0.03125, where the bound is 0.0625.
    """
    rng = draw.rng
    problem, lr = some_problem(rng, most_kappa=1e4), float(np.exp(rng.uniform(-4, 1)))
    signs = Adam(lr=lr, beta1=0.0, beta2=0.0, eps=0.0)
    start = problem.minimizer + lr * rng.standard_normal(problem.dim)
    loss = solve(problem, signs, w0=start, tol=0, max_steps=100, record=1).loss
    slack = float(((loss[1:] + loss[:-1]) / 2).min() / _sign_floor(problem, lr) - 1)
    s = rng.choice([-1.0, 1.0], int(rng.integers(1, 6)))
    lowest = s / np.sqrt(s.size)
    block = some_block(rng, s.size, 100)
    rest = np.eye(s.size) - np.outer(lowest, lowest)
    low = float(np.linalg.eigvalsh(block)[0])  # the others, restricted to the complement of s, are not lower
    met = BlockQuadratic.from_blocks([rest @ block @ rest + low * np.outer(lowest, lowest)])
    loss = solve(met, signs, w0=lr / 2 * s, tol=0, max_steps=5, record=1).loss
    return Seen(slack, float(np.abs((loss[1:] + loss[:-1]) / 2 / _sign_floor(met, lr) - 1).max()))


def _sign_floor(problem: BlockQuadratic, lr: float) -> float:
    return lr**2 / 8 * sum(values.size * float(values[0]) for values in problem.eigenvalues)


# A start at lr = 1, v₀ in units of g₀², and 1 − β2. Runs take up to about 1/(1−β2) steps to forget their start.
START_AND_BETA2 = (Axis("v0", 1e-2, 1e2, log=True), Axis("gap", 0.05, 1, log=True))


def _gradients_stay(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: int = 1500) -> np.ndarray:
    """Room of 5b: the largest gradient after some steps, over as many others."""
    g = np.einsum("kij,kj->ki", h, e)
    run = long_run(h, e, 1 - gap, v=v0[:, None] * g * g, before=steps, counted=steps)
    bounds = np.array([floors.nonconvergence(one_block(block), 1.0)[0] for block in h])
    room = run.gradient.max(axis=1) / bounds - 1
    return np.where(np.isfinite(run.loss) & (run.loss > 0), room, np.inf)  # 0/0 at the optimum, or underflow


@claim(
    "5b",
    PROVED,
    "Adam with β1 = 0, ε = 0 and any β2 < 1 does not converge: limsup |g_l|_∞ ≥ lr·μ_l/2 in each block that is never "
    "exactly at its optimum, so limsup loss ≥ (lr²/8) μ_l²/max H_ii of any such block; attained in one dimension for 0 "
    "< β2 < 1, on the cycle e = ±lr/2.",
    draws=300,
    tight=True,
    batch=True,
    search=Search(
        [Matrix("h", 3), Axis("e", -2, 2, 3), *START_AND_BETA2],
        _gradients_stay,
        lambda **chosen: _gradients_stay(**chosen, steps=30_000),
        batch=True,
    ),
)
def no_convergence(draws: Sequence[Draw]) -> list[Seen]:
    """Let V = diag(v) of the block, y = H^½e and M = lr·H^½V^(−½)H^½, so that y ← (I − M)y. Suppose that from some step
    on all √v_i ≤ lr·μ_l/(2 + δ) with δ > 0. Then M ⪰ (2 + δ)I, each step multiplies |y| by at least 1 + δ, and the loss
    ½|y|² grows without bound unless it is 0; but v ≥ (1 − β2)g² keeps gradients bounded. So limsup max_i √v_i ≥
    lr·μ_l/2. And v_i is a moving average of g_i², so limsup v_i ≤ limsup g_i². For the loss: g_i = (He)_i is the
    product of e_i and e in the metric of H, so by Cauchy and Schwarz g_i² ≤ H_ii·eᵀHe, and the loss is at least
    g_i²/(2H_ii).

    In one dimension, on e = ±lr/2, |g| = lr·λ/2. That cycle exists (5c) and is stable for 0 < β2 < 1 (5d); that runs
    from other starts end there is measured, not proved. At β2 = 0 they end on {a, a−lr}, with limsup |e| ≥ lr/2 and
    equality for a = lr/2 only. A run is finite: the largest |g_l|_∞ of its last 300 steps stands for the limit.
    """
    steps, tail = 3000, 300
    problems = [_some_blocks(draw.rng, alone=True) for draw in draws]
    lr = np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    # a sixth is sign descent; beyond 0.95 runs would have to be longer (5i)
    beta2 = np.array([[0.0 if draw.number % 6 == 5 else draw.rng.uniform(0.05, 0.95)] for draw in draws])
    start = lr * np.array([draw.rng.standard_normal(6) for draw in draws])
    largest, highest = np.zeros_like(start), np.zeros(len(draws))
    for t, (e, g, _) in enumerate(orbit(_stack(problems), start, lr, 0.0, beta2, steps)):
        if t > steps - tail:
            largest = np.maximum(largest, np.abs(g))
            highest = np.maximum(highest, (e * g).sum(axis=1) / 2)
    seen = []
    for k, problem in enumerate(problems):
        bound = floors.nonconvergence(problem, float(lr[k, 0]))
        ratios = np.array([part.max() for part in problem.split(largest[k])]) / bound
        limsup = floors.floor_bounds(problem, float(lr[k, 0]), 0.5).limsup
        slack = min(float(ratios.min()), float(highest[k]) / limsup) - 1
        seen.append(Seen(slack, abs(float(ratios[-1]) - 1) if beta2[k, 0] > 0 else None))
    return seen


@claim(
    "5c",
    PROVED,
    "The 2-cycles with nonzero gradients, at β1 = 0 and ε = 0: of sign descent the pairs c ± (lr/2)s with |(Hc)_i| < "
    "(lr/2)s_i(Hs)_i for all i; of Adam with 0 < β2 < 1 only those with c = 0, for every s with sign(Hs) = s, at a "
    "loss of (lr²/8)sᵀHs; there always is one.",
    draws=300,
    relation=EQUALITY,
)
def two_cycles(draw: Draw) -> Seen:
    """Sign descent leaves c + (lr/2)s for c − (lr/2)s if the gradient Hc + (lr/2)Hs has the signs s, and comes back if
    Hc − (lr/2)Hs has the signs −s: both if and only if s_i(Hs)_i lr/2 > |(Hc)_i|.

    Adam: on a 2-cycle a coordinate's gradient alternates between p and q, and v between (p² + β2q²)/(1 + β2) after p
    and (q² + β2p²)/(1 + β2) after q. The two steps must cancel: p/√(p² + β2q²) = −q/√(q² + β2p²). Squared, this is β2p⁴
    = β2q⁴, so q = −p, v = p², and the step is lr·sign(p). Gradients that are opposite everywhere belong to opposite
    errors, so e = ±(lr/2)s with s the signs of He, which are those of Hs. The loss is ½eᵀHe.

    Existence: to flip s_i changes sᵀHs by −4(s_i(Hs)_i − H_ii), so any s that maximises sᵀHs has s_i(Hs)_i ≥ H_ii > 0.

    Checked by two steps from every s and from random c, and by solving the equations of a 2-cycle from random points:
    whatever is found must be one of these.
    """
    rng = draw.rng
    n, lr, beta2 = int(rng.integers(1, 6)), float(np.exp(rng.uniform(-4, 1))), float(rng.uniform(0.05, 0.999))
    h = some_block(rng, n)
    signs, sums = floors.cycles(h)
    agree = [_sign_pair(rng, h, signs, lr)]
    every = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    state = np.array([_on_cycle(h, s, lr, 0.0) for s in every]).T  # (3n, signs)
    back = np.abs(_two_steps(h, state, lr, 0.0, beta2) - state)[:n].max(axis=0) < RETURNS * lr
    agree.append({tuple(s) for s in every[back]} == {tuple(s) for s in signs})
    agree.append(_other_pair(rng, h, signs, lr, beta2))
    top, s = sdp.largest_sign_sum(h)
    held = float((s * (h @ s) / np.diag(h)).min() - 1)
    problem = BlockQuadratic.from_blocks([h])
    adam = Adam(lr=lr, beta1=0.0, beta2=beta2, eps=0.0, init="gradient")
    loss = solve(problem, adam, w0=lr / 2 * s, tol=0, max_steps=3, record=1).loss
    off = float(np.abs(loss / floors.cycle_loss(h, s, lr) - 1).max()) + abs(top / sums[0] - 1)
    return Seen(min(held, -off) if all(agree) else -1.0)


def _sign_pair(rng: np.random.Generator, h: np.ndarray, signs: np.ndarray, lr: float) -> bool:
    """Whether sign descent alternates between c ± (lr/2)s if and only if 5c says so, for one s and c."""
    n = len(h)
    s = signs[int(rng.integers(len(signs)))] if rng.uniform() < 0.7 else rng.choice([-1.0, 1.0], n)
    share = rng.uniform(-0.99, 0.99, n)
    if rng.uniform() < 0.5:
        share[int(rng.integers(n))] = float(rng.choice([-1, 1]) * rng.uniform(1.01, 1.3))  # just too far
    c = np.linalg.solve(h, share * lr / 2 * np.abs(h @ s))
    expected = bool((np.abs(h @ c) < lr / 2 * s * (h @ s)).all())
    problem = BlockQuadratic.from_blocks([h])
    descent, ends = Adam(lr=lr, beta1=0.0, beta2=0.0, eps=0.0), (c + lr / 2 * s, c - lr / 2 * s)
    first, second = (solve(problem, descent, w0=ends[0], tol=0, max_steps=t).w for t in (1, 2))
    room = RETURNS * (lr + np.abs(c).max())
    return bool(np.abs(first - ends[1]).max() < room and np.abs(second - ends[0]).max() < room) == expected


def _other_pair(rng: np.random.Generator, h: np.ndarray, signs: np.ndarray, lr: float, beta2: float) -> bool:
    """Whether what a root finder makes of the equations of a 2-cycle, from a random point, is e = ±(lr/2)s, if
    anything.
    """
    from scipy.optimize import root

    n = len(h)

    def misses(both: np.ndarray) -> np.ndarray:
        e, after = both[:n], both[n:]
        p, q = h @ e, h @ after
        steps = [a / np.sqrt((a * a + beta2 * b * b) / (1 + beta2)) for a, b in ((p, q), (q, p))]
        return np.concatenate([e - after - steps[0], after - e - steps[1]])  # in units of lr

    found = root(misses, rng.standard_normal(2 * n))
    gradients = np.abs(h @ found.x.reshape(2, n).T)
    if not found.success or np.abs(found.fun).max() > 1e-9 or gradients.min() < 1e-6 * gradients.max():
        return True
    e = found.x[:n]
    opposite = np.abs(e + found.x[n:]).max() < RETURNS and np.abs(np.abs(e) - 0.5).max() < RETURNS
    return bool(opposite) and any((np.sign(e) * np.sign(e[0]) == s).all() for s in signs)


def _mislabelled(h: np.ndarray, beta1: float, gap: float) -> float:
    """The room of 5d at one block: how far the spectral radius of each cycle is on the side of 1 that is claimed."""
    beta2, rooms = 1 - float(gap), []
    for s in floors.cycles(h)[0]:
        if floors.cycle_spectrum(h, s)[-1] < 1e3:  # else rounding is seen, multiplied
            radius = float(np.abs(np.linalg.eigvals(_jacobian(h, s, float(beta1), beta2))).max())
            rooms.append((1 - radius) * (1 if floors.is_stable_cycle(h, s, beta2, float(beta1)) else -1))
    return min(rooms, default=np.inf)


@claim(
    "5d",
    PROVED,
    "A 2-cycle of Adam (β1 = 0, ε = 0, 0 < β2 < 1) is linearly stable if and only if λmax(P) < (1+β2)/(2β2), P = A⁻¹K, "
    "K = diag(s)H diag(s), A = diag(K1): an eigenvalue p of P has the multipliers of z² − (β2−1+2β2p)z + β2(2p−1) = 0. "
    "For p = 1 and β2 > 1/9 both have |z| = √β2; for p → 0 the slower one has |z| ≈ 1 − 4pβ2/(1+β2).",
    draws=300,
    tight=True,
    rounding=1e-7,  # determinants of up to fifteen multipliers, a few of them nearly 1e6
    search=Search(
        [Matrix("h", 3), Axis("gap", 1e-3, 0.95, log=True)],
        lambda h, gap: _mislabelled(h, 0.0, gap),
        evaluations=2000,
        rounding=1e-6,  # of a double eigenvalue on the unit circle, the square root of rounding
    ),
)
def stability(draw: Draw) -> Seen:
    """In the frame u_t = (−1)^t s·e_t the cycle is the fixed point u = lr/2, with gradients a_i lr/2, a = K1. Let x be
    the perturbation of u relative to lr/2, and ν half that of v relative to v. The gradient is perturbed by γ = A⁻¹Kx =
    Px, relative to itself. Then ν ← β2ν + (1−β2)γ. A step, twice the amplitude, is perturbed by γ − ν with the new ν,
    and u ← −u + step, so x ← −x + 2(γ − ν): in terms of the old values x ← −x + 2β2(Px − ν) and ν ← β2ν + (1−β2)Px.

    Along an eigenvector of P, p its eigenvalue, the matrix of this recursion has trace 2β2p − 1 + β2 and determinant
    β2(2p − 1): that is the quadratic. Jury's test for both roots within the unit circle: the quadratic at 1 is 2(1 −
    β2) > 0; at −1 it is 4β2p > 0; the determinant is at least −β2 > −1, and it is below 1 if and only if p <
    (1+β2)/(2β2). P is similar to the positive definite A^(−½)KA^(−½), so its eigenvalues are positive; P1 = 1.

    At p = 1 the quadratic is z² − (3β2−1)z + β2, of discriminant (9β2−1)(β2−1): for β2 > 1/9 its roots are conjugate,
    with |z|² = β2. For small p the root near −1 is −1 + 4β2p/(1+β2) + O(p²), as the slope there is −(1+β2) at p = 0:
    along a nearly flat direction of P the approach takes about (1+β2)/(4β2p) steps for each factor e.

    Checked against the Jacobian of two steps of Adam, by its characteristic polynomial at random points, by its
    spectral radius, and, for equality, at the β2 at which the limit is λmax(P): there the radius is 1.
    """
    seen = _stability(draw, 0.0, 0.0)
    beta2, p = float(draw.rng.uniform(0.12, 0.999)), float(np.exp(draw.rng.uniform(np.log(1e-6), np.log(1e-4))))
    b = (1 - p) / (1 + p)  # with s = (1, 1), P has the eigenvalues p and 1
    slow, usual = np.abs(floors.cycle_multipliers(np.array([[1, b], [b, 1]]), np.ones(2), beta2))
    relaxed = (1 - slow.max()) / (4 * p * beta2 / (1 + beta2)) - 1
    off = max(float(np.abs(usual / np.sqrt(beta2) - 1).max()), abs(float(relaxed)) - 5 * p)  # O(p) is allowed there
    return seen._replace(slack=min(seen.slack, -max(off, 0.0)))


@claim(
    "5d-momentum",
    PROVED,
    "With β1 > 0 and ε = 0 Adam's 2-cycles with nonzero gradients are e = ±(lr/2)((1−β1)/(1+β1))s for the s of 5c, "
    "linearly stable if and only if λmax(P) < (1+β1β2)(1−β1)(1+β2)/(2(β1+β2)(1−β1β2)): no cycle is stable where β2 ≥ "
    "(1−3β1)/(β1(3−β1)), so none for β2 → 1 once β1 > 3−2√2, and none for any β2 once β1 ≥ 1/3.",
    draws=300,
    tight=True,
    rounding=1e-7,  # determinants of up to fifteen multipliers, a few of them nearly 1e6
    search=Search(
        [Matrix("h", 3), Axis("beta1", 0, 0.95), Axis("gap", 1e-3, 0.95, log=True)],
        lambda h, beta1, gap: min(_mislabelled(h, beta1, gap), _none_stable(float(beta1), 1 - float(gap))),
        evaluations=2000,
        rounding=1e-6,
    ),
)
def stability_with_momentum(draw: Draw) -> Seen:
    """On a 2-cycle, gradients p and q of a coordinate in turn, m is (p+β1q)/(1+β1) and (q+β1p)/(1+β1), and v as in 5c.
    That the steps cancel, squared, says (p²−q²)[(β2−β1²)(p²+q²) − 2β1(1−β2)pq] = 0. Where the bracket vanishes with |p|
    ≠ |q|, the two m have the same sign: for β2 > β1² p and q agree in sign; β2 = β1² would need pq = 0; for β2 < β1²
    they differ in sign, and r = |p/q| or its inverse, whichever is above 1, has r + 1/r = 2β1(1−β2)/(β1²−β2) > β1 +
    1/β1, so r > 1/β1, and both m have the sign of the larger. p = q does not cancel either. So q = −p, v = p², m is
    (1−β1)/(1+β1) of the gradient, and errors are opposite as in 5c.

    Linearised as in 5d, with ω for the perturbation of m relative to ((1−β1)/(1+β1))g: ω ← −β1ω + (1+β1)Px, ν ← β2ν +
    (1−β2)Px, x ← −x + 2(ω − ν). Along an eigenvalue p this gives z + 1 = 2p((1+β1)z/(z+β1) − (1−β2)z/(z−β2)), and since
    (1+β1)(z−β2) − (1−β2)(z+β1) = (β1+β2)(z−1), the polynomial (z+1)(z+β1)(z−β2) − kz(z−1) = 0 with k = 2p(β1+β2).

    Jury's test for the cubic z³ + a₂z² + a₁z + a₀: at 1 it is 2(1+β1)(1−β2) > 0, at −1 it is −2k < 0, |a₀| = β1β2 < 1,
    and what remains is |a₀a₂ − a₁| < 1 − a₀². Here a₀a₂ − a₁ = (β2−β1)(1+β1β2) − k(1−β1β2). Its upper side holds since
    β2 − β1 < 1 − β1β2; its lower side is k(1−β1β2) < (1+β1β2)(1 − β1β2 + β2 − β1) = (1+β1β2)(1−β1)(1+β2), the limit.

    λmax(P) is at least 1. The limit exceeds 1 if and only if (1−β2)((1−3β1) − β1(3−β1)β2) > 0, and at β2 = 1 the
    second factor is 1 − 6β1 + β1², positive for β1 < 3−2√2 = 0.1716 only. With β1 ≥ 1/3 it is not positive for any β2:
    at the usual β1 = 0.9 Adam has no stable 2-cycle.

    Checked as 5d, with m in the state.
    """
    rng = draw.rng
    beta1, beta2 = float(rng.choice([0.9, rng.uniform(0.001, 0.4)])), float(rng.uniform(0.01, 0.9999))
    room = floors.stability_limit(beta2, beta1) - 1
    side = (1 - 3 * beta1) - beta1 * (3 - beta1) * beta2
    agrees = room * side > 0 or abs(side) < 1e-9
    edge = 3 - 2 * np.sqrt(2)
    around = floors.stability_limit(1 - 1e-6, edge - 1e-4) > 1 > floors.stability_limit(1 - 1e-6, edge + 1e-4)
    seen = _stability(draw, beta1, float(rng.uniform(0, 0.09)))
    none = _none_stable(float(rng.uniform(1 / 3, 1)), beta2) >= 0
    return seen if agrees and around and none else Seen(-1.0)


def _none_stable(beta1: float, beta2: float) -> float:
    """How far the limit of stability is below 1, the least λmax(P), where β1 ≥ 1/3."""
    return 1 - floors.stability_limit(beta2, beta1) if beta1 >= 1 / 3 else np.inf


def _stability(draw: Draw, beta1: float, small: float) -> Seen:
    """A cycle's multipliers and its stability against the Jacobian; at equality with β1 = `small`."""
    rng = draw.rng
    n, beta2 = int(rng.integers(2, 6)), float(rng.uniform(0.05, 0.999))
    h = some_block(rng, n, 1e3)
    h = h / np.trace(h)
    signs, _ = floors.cycles(h)
    mild = [s for s in signs if floors.cycle_spectrum(h, s)[-1] < 1e3]  # else rounding is seen, multiplied
    s = mild[int(rng.integers(len(mild)))]
    state = _on_cycle(h, s, 1.0, beta1)
    off = float(np.abs(_two_steps(h, state, 1.0, beta1, beta2) / state - 1).max())
    off += abs(0.5 * state[:n] @ h @ state[:n] / floors.cycle_loss(h, s, 1.0, beta1) - 1)
    jacobian = _jacobian(h, s, beta1, beta2)
    radius = float(np.abs(np.linalg.eigvals(jacobian)).max())
    squares = floors.cycle_multipliers(h, s, beta2, beta1).ravel() ** 2
    squares = np.concatenate([squares, np.zeros(3 * n - squares.size)])  # at β1 = 0, m remembers nothing
    for z in 1.5 * max(radius, 1) * np.exp(2j * np.pi * rng.uniform(size=3 * n)):
        off = max(off, float(abs(np.linalg.det(np.eye(3 * n) - jacobian / z) / np.prod(1 - squares / z) - 1)))
    room = (1 - radius) * (1 if floors.is_stable_cycle(h, s, beta2, beta1) else -1)
    return Seen(min(room, -off), _edge(rng, small))


def _edge(rng: np.random.Generator, beta1: float) -> float | None:
    """How far from 1 the spectral radius is where the limit of stability is λmax(P), for a pair and s = (1, 1); None if
    it is that for no β2.
    """
    from scipy.optimize import brentq

    c = float(rng.uniform(0.7, 1.4))
    b = -float(rng.uniform(0.05, 0.5)) * min(c, 1 / c)  # so that 1 is a cycle, and λmax(P) above 1
    h, s = np.array([[1, b * c], [b * c, c * c]]), np.ones(2)
    top, ends = float(floors.cycle_spectrum(h, s)[-1]), (1e-3, 1 - 1e-6)
    if not floors.stability_limit(ends[0], beta1) > top > floors.stability_limit(ends[1], beta1):
        return None
    beta2 = brentq(lambda beta2: floors.stability_limit(beta2, beta1) - top, *ends, xtol=1e-15)
    return abs(float(np.abs(np.linalg.eigvals(_jacobian(h, s, beta1, beta2))).max()) - 1)


def _on_cycle(h: np.ndarray, s: np.ndarray, lr: float, beta1: float) -> np.ndarray:
    """The state (e, m, v) of Adam before a step on the cycle of s."""
    share = (1 - beta1) / (1 + beta1)
    e = lr / 2 * share * s
    return np.concatenate([e, -share * (h @ e), (h @ e) ** 2])


def _two_steps(h: np.ndarray, state: np.ndarray, lr: float, beta1: float, beta2: float) -> np.ndarray:
    """Two steps of Adam from a state, or from each column of many; complex ones go through."""
    e, m, v = np.split(state, 3)
    for _ in range(2):
        g = h @ e
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        e = e - lr * m / np.sqrt(v)
    return np.concatenate([e, m, v])


def _jacobian(h: np.ndarray, s: np.ndarray, beta1: float, beta2: float) -> np.ndarray:
    """Of two steps on the cycle of s at lr = 1, by complex steps, which do not cancel."""
    state, tiny = _on_cycle(h, s, 1.0, beta1), 1e-40
    return _two_steps(h, state[:, None] + 1j * tiny * np.eye(state.size), 1.0, beta1, beta2).imag / tiny


@claim(
    "5e",
    PROVED,
    "A stable 2-cycle of Adam (β1 = 0, ε = 0) has sᵀHs ≥ (2β2/(1+β2)) SDP(H), so for β2 near 1 its loss is nearly the "
    "highest; the constant cannot be improved: two dimensions approach it.",
    draws=300,
    tight=True,
    search=Search(
        [Matrix("h", 3), Axis("gap", 1e-3, 0.9, log=True)],
        lambda h, gap: _room_5e(h, 1 - float(gap)),
        evaluations=3000,
    ),
)
def stable_is_high(draw: Draw) -> Seen:
    """Stability (5d) says A^(−½)KA^(−½) ⪯ ((1+β2)/(2β2))I, that is K ⪯ ((1+β2)/(2β2))A, and conjugated with diag(s),
    which leaves the diagonal A alone, H ⪯ ((1+β2)/(2β2))A. So the diagonal of ((1+β2)/(2β2))A is feasible for the dual
    SDP(H) = min{ΣΛ_i : diag(Λ) ⪰ H}, and its sum is ((1+β2)/(2β2))·1ᵀK1 = ((1+β2)/(2β2))·sᵀHs. As SDP(H) ≥ every
    s′ᵀHs′, and ≥ tr H (X = I), a stable cycle is at least 2β2/(1+β2) of these; for β2 → 1 only global maximisers can be
    stable.

    The constant: H = [[1, b], [b, 1]] with b = −(1−β2)/(1+3β2) has, for s = (1, 1), A = (1+b)I and λmax(P) =
    (1−b)/(1+b), the limit of stability; sᵀHs = 2(1+b) while SDP(H) = 2(1−b). A slightly smaller |b| makes that cycle
    stable, and comes as near to equality as one likes. It is Adam's lower one: the maximiser is (1, −1).
    """
    rng = draw.rng
    n, beta2 = int(rng.integers(1, 7)), float(1 - np.exp(rng.uniform(np.log(1e-3), np.log(0.9))))
    b = -(1 - beta2) / (1 + 3 * beta2) * (1 - 1e-8)
    return Seen(_room_5e(some_block(rng, n, 1e3), beta2), _room_5e(np.array([[1, b], [b, 1]]), beta2))


def _room_5e(h: np.ndarray, beta2: float) -> float:
    """Room of the lowest stable cycle above 5e's bound; infinite if there is none."""
    stable = [s for s in floors.cycles(h)[0] if floors.is_stable_cycle(h, s, beta2)]
    bound = floors.floor_bounds(one_block(h), 1.0, beta2).stable_cycle if stable else np.nan
    return min((floors.cycle_loss(h, s, 1.0) / bound - 1 for s in stable), default=np.inf)


@claim("5e-unstable", FALSE, "Every 2-cycle of Adam (β1 = 0, ε = 0), stable or not, has sᵀHs ≥ tr H.", draws=300)
def unstable_may_be_low(draw: Draw) -> Seen:
    """H = [[1, b], [b, 1]] with b near −1 and s = (1, 1): Hs = (1+b)s has the signs of s, and sᵀHs = 2(1+b) is as small
    relative to tr H = 2 as one likes. Such a cycle is unstable for every β2 > (1+b)/(1−3b), by 5d; random blocks have
    them too.
    """
    h = some_block(draw.rng, int(draw.rng.integers(2, 8)))
    return Seen(float(floors.cycles(h)[1].min() / np.trace(h) - 1))


@claim(
    "5f",
    PROVED,
    "On a bounded orbit of Adam (β1 = 0, ε = 0, β2 < 1) the limsup of the average oscillation energy ⅛ΔᵀHΔ is at most "
    "(lr²/8) SDP(H); over T steps of any orbit each Δ_i² averages at most lr²(1 − β2(v₀/v_T)^(1/T))/(1−β2).",
    draws=400,
    tight=True,
    batch=True,
    search=Search(
        [
            Matrix("h", 3),
            Axis("e", -3, 3, 3),
            Axis("v0", 1e-3, 1e3, log=True),  # T = 1 is an equality, to eps·v₀/((1−β2)g₀²)
            Axis("gap", 1e-3, 0.99, log=True),
            Axis("steps", 1, 200, log=True),
        ],
        lambda **chosen: _room_5f(**chosen),
        batch=True,
    ),
)
def oscillation(draws: Sequence[Draw]) -> list[Seen]:
    """Of one coordinate: g² = (v_t − β2v_{t−1})/(1−β2), so Δ² = lr²g²/v_t = lr²(1 − β2x_t)/(1−β2) with x_t =
    v_{t−1}/v_t. The mean of x_1..x_T is at least their geometric mean (v₀/v_T)^(1/T): that is the bound for T steps. On
    a bounded orbit v_T is bounded, the root tends to 1 or more, and limsup of the mean of Δ_i² is at most lr².

    Let diag(Λ) ⪰ H with ΣΛ_i = SDP(H), a solution of the dual. Then ΔᵀHΔ ≤ ΣΛ_iΔ_i², whose mean is at most lr²·SDP(H)
    in the limit; and Λ = L_l in each block is feasible, so SDP(H) ≤ Σ n_l L_l. (Orbits are expected to be bounded: a
    step is at most lr/√(1−β2) in each coordinate, and far out v follows the largest gradients; not proved here.)

    Equality: on the cycle of an s with sᵀHs = SDP(H), such as any s where H is diagonal.
    """
    problems = [_some_blocks(draw.rng) for draw in draws]
    h, lr = _stack(problems), np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    beta2 = np.array([[draw.rng.uniform(0.01, 0.999)] for draw in draws])
    far = np.array([np.exp(draw.rng.uniform(-3, 3)) * draw.rng.standard_normal(6) for draw in draws])
    multipliers = np.array([sdp.sdp_value(problem).multipliers for problem in problems])
    steps = np.array([int(draw.rng.choice([1, 10, 200, 400])) for draw in draws])
    slack = _energy_room(h, lr * far, lr, beta2, multipliers, steps).min(axis=1)
    wide = [floors.floor_bounds(problem, 1.0, 0.5) for problem in problems]
    slack = np.minimum(slack, [bounds.looser / bounds.upper - 1 for bounds in wide])
    diagonal = h * np.eye(6)
    own = np.array([sdp.sdp_value(BlockQuadratic.from_blocks([block])).multipliers for block in diagonal])
    signs = np.array([draw.rng.choice([-1.0, 1.0], 6) for draw in draws])
    gap = np.abs(_energy_room(diagonal, lr / 2 * signs, lr, beta2, own, np.full(len(draws), 10))).max(axis=1)
    return [Seen(float(room), float(near)) for room, near in zip(slack, gap, strict=True)]


def _room_5f(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: np.ndarray) -> np.ndarray:
    multipliers = np.array([sdp.sdp_value(block).multipliers for block in h])
    ones, begin = np.ones((len(e), 1)), v0[:, None] * np.einsum("kij,kj->ki", h, e) ** 2
    room = _energy_room(h, e, ones, 1 - gap[:, None], multipliers, steps.astype(int), begin).min(axis=1)
    return np.where((begin > 0).all(axis=1), room, np.inf)


def _energy_room(
    h: np.ndarray,
    e: np.ndarray,
    lr: np.ndarray,
    beta2: np.ndarray,
    multipliers: np.ndarray,
    steps: np.ndarray,
    begin: np.ndarray | None = None,
) -> np.ndarray:
    """Room below 5f's bounds over each draw's own number of steps: (draws, 2), of the coordinates and of the energy.

    v begins at `begin`, by default at the first squared gradient.
    """
    begin = np.einsum("kij,kj->ki", h, e) ** 2 if begin is None else begin
    squares, energy, end = np.zeros_like(e), np.zeros(len(e)), begin
    for t, (_, g, v) in enumerate(orbit(h, e, lr, 0.0, beta2, int(steps.max()), begin)):
        counted = t < steps
        step = np.where(counted[:, None], lr * g / np.sqrt(v), 0.0)
        squares += step**2
        energy += np.einsum("ki,kij,kj->k", step, h, step)
        end = np.where(counted[:, None], v, end)
    count = steps[:, None]
    bound = count * lr**2 * (1 - beta2 * (begin / end) ** (1 / count)) / (1 - beta2)
    return np.stack([1 - (squares / bound).max(axis=1), 1 - energy / (multipliers * bound).sum(axis=1)], axis=1)


def orbit(
    h: np.ndarray, e: np.ndarray, lr: Any, beta1: Any, beta2: Any, steps: int, v: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Adam on many draws at once: e, g = He, and the v that g has gone into. m begins at the first gradient, and v at
    its square unless given.

    h is (draws, n, n), e is (draws, n); settings are numbers or columns. Before each step and at the end: steps + 1
    times.
    """
    m = np.einsum("kij,kj->ki", h, e)
    v = m * m if v is None else v
    for _ in range(steps + 1):
        g = np.matmul(h, e[:, :, None])[:, :, 0]
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * (g * g)
        yield e, g, v
        e = e - lr * m / np.sqrt(v)


def _some_blocks(rng: np.random.Generator, alone: bool = False) -> BlockQuadratic:
    """Six coordinates in dense blocks; with `alone`, the last is a block of its own."""
    sizes: list[int] = [1] if alone else []
    while sum(sizes) < 6:
        sizes.insert(0, int(rng.integers(1, 7 - sum(sizes))))
    scales = np.exp(rng.uniform(-3, 3, len(sizes)))
    return BlockQuadratic.from_blocks([scale * some_block(rng, n) for scale, n in zip(scales, sizes, strict=True)])


def _stack(problems: list[BlockQuadratic]) -> np.ndarray:
    return np.array([problem.hessian() for problem in problems])  # (draws, n, n)
