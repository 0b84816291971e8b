"""Ledger 5c to 5e: the 2-cycles of Adam at a constant learning rate, and which of them are stable.

Here ε = 0, and β1 = 0 unless stated.
"""

from __future__ import annotations

import itertools

import numpy as np

from quadsim.claims.adversary import Axis, Matrix, Search
from quadsim.claims.ledger import Draw, Observation, false, proved
from quadsim.claims.sampling import one_block, random_block
from quadsim.engine.solver import solve
from quadsim.optimizers import Adam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import floors, sdp

RETURNS = 1e-3  # relative to lr: points that come back this closely do; steps that differ in a sign are off by 2 lr


@proved("5c", draws=300, relation="equality")
def two_cycles(draw: Draw) -> Observation:
    """The 2-cycles with nonzero gradients, at β1 = 0 and ε = 0: of sign descent the pairs c ± (lr/2)s with |(Hc)_i| <
    (lr/2)s_i(Hs)_i for all i; of Adam with 0 < β2 < 1 only those with c = 0, for every s with sign(Hs) = s, at a loss
    of (lr²/8)sᵀHs; there always is one.

    Sign descent leaves c + (lr/2)s for c − (lr/2)s if the gradient Hc + (lr/2)Hs has the signs s, and comes back if Hc
    − (lr/2)Hs has the signs −s: both if and only if s_i(Hs)_i lr/2 > |(Hc)_i|.

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
    h = random_block(rng, n)
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
    return Observation(min(held, -off) if all(agree) else -1.0)


def _sign_pair(rng: np.random.Generator, h: np.ndarray, signs: np.ndarray, lr: float) -> bool:
    """Whether sign descent alternates between c ± (lr/2)s if and only if the condition of 5c holds, for one s and c."""
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
    """The slack of 5d at one block: how far the spectral radius of each cycle is on the side of 1 that is claimed."""
    beta2, rooms = 1 - float(gap), []
    for s in floors.cycles(h)[0]:
        if floors.cycle_spectrum(h, s)[-1] < 1e3:  # beyond, rounding is magnified too much
            radius = float(np.abs(np.linalg.eigvals(_jacobian(h, s, float(beta1), beta2))).max())
            rooms.append((1 - radius) * (1 if floors.is_stable_cycle(h, s, beta2, float(beta1)) else -1))
    return min(rooms, default=np.inf)


# determinants of up to fifteen multipliers, a few of them nearly 1e6
# of a double eigenvalue on the unit circle, the square root of rounding
@proved(
    "5d",
    draws=300,
    tight=True,
    rounding=1e-7,
    search=Search(
        [Matrix("h", 3), Axis("gap", 1e-3, 0.95, log=True)],
        lambda h, gap: _mislabelled(h, 0.0, gap),
        evaluations=2000,
        rounding=1e-6,
    ),
)
def stability(draw: Draw) -> Observation:
    """A 2-cycle of Adam (β1 = 0, ε = 0, 0 < β2 < 1) is linearly stable if and only if λmax(P) < (1+β2)/(2β2), P = A⁻¹K,
    K = diag(s)H diag(s), A = diag(K1): an eigenvalue p of P has the multipliers of z² − (β2−1+2β2p)z + β2(2p−1) = 0.
    For p = 1 and β2 > 1/9 both have |z| = √β2; for p → 0 the slower one has |z| ≈ 1 − 4pβ2/(1+β2).

    In the frame u_t = (−1)^t s·e_t the cycle is the fixed point u = lr/2, with gradients a_i lr/2, a = K1. Let x be the
    perturbation of u relative to lr/2, and ν half that of v relative to v. The gradient is perturbed by γ = A⁻¹Kx = Px,
    relative to itself. Then ν ← β2ν + (1−β2)γ. A step, twice the amplitude, is perturbed by γ − ν with the new ν, and u
    ← −u + step, so x ← −x + 2(γ − ν): in terms of the old values x ← −x + 2β2(Px − ν) and ν ← β2ν + (1−β2)Px.

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
    observation = _stability(draw, 0.0, 0.0)
    beta2, p = float(draw.rng.uniform(0.12, 0.999)), float(np.exp(draw.rng.uniform(np.log(1e-6), np.log(1e-4))))
    b = (1 - p) / (1 + p)  # with s = (1, 1), P has the eigenvalues p and 1
    slow, usual = np.abs(floors.cycle_multipliers(np.array([[1, b], [b, 1]]), np.ones(2), beta2))
    relaxed = (1 - slow.max()) / (4 * p * beta2 / (1 + beta2)) - 1
    off = max(float(np.abs(usual / np.sqrt(beta2) - 1).max()), abs(float(relaxed)) - 5 * p)  # O(p) is allowed there
    return observation._replace(slack=min(observation.slack, -max(off, 0.0)))


# determinants of up to fifteen multipliers, a few of them nearly 1e6
@proved(
    "5d-momentum",
    draws=300,
    tight=True,
    rounding=1e-7,
    search=Search(
        [Matrix("h", 3), Axis("beta1", 0, 0.95), Axis("gap", 1e-3, 0.95, log=True)],
        lambda h, beta1, gap: min(_mislabelled(h, beta1, gap), _none_stable(float(beta1), 1 - float(gap))),
        evaluations=2000,
        rounding=1e-6,
    ),
)
def stability_with_momentum(draw: Draw) -> Observation:
    """With β1 > 0 and ε = 0 Adam's 2-cycles with nonzero gradients are e = ±(lr/2)((1−β1)/(1+β1))s for the s of 5c,
    linearly stable if and only if λmax(P) < (1+β1β2)(1−β1)(1+β2)/(2(β1+β2)(1−β1β2)): no cycle is stable where β2 ≥
    (1−3β1)/(β1(3−β1)), so none for β2 → 1 once β1 > 3−2√2, and none for any β2 once β1 ≥ 1/3.

    On a 2-cycle, gradients p and q of a coordinate in turn, m is (p+β1q)/(1+β1) and (q+β1p)/(1+β1), and v as in 5c.
    Squared, the condition that the steps cancel is (p²−q²)[(β2−β1²)(p²+q²) − 2β1(1−β2)pq] = 0. Where the bracket
    vanishes with |p| ≠ |q|, the two m have the same sign: for β2 > β1² p and q agree in sign; β2 = β1² would need pq =
    0; for β2 < β1² they differ in sign, and r = |p/q| or its inverse, whichever is above 1, has r + 1/r =
    2β1(1−β2)/(β1²−β2) > β1 + 1/β1, so r > 1/β1, and both m have the sign of the larger. p = q does not cancel either.
    So q = −p, v = p², m is (1−β1)/(1+β1) of the gradient, and errors are opposite as in 5c.

    Linearised as in 5d, with ω for the perturbation of m relative to ((1−β1)/(1+β1))g: ω ← −β1ω + (1+β1)Px, ν ← β2ν +
    (1−β2)Px, x ← −x + 2(ω − ν). Along an eigenvalue p this gives z + 1 = 2p((1+β1)z/(z+β1) − (1−β2)z/(z−β2)), and since
    (1+β1)(z−β2) − (1−β2)(z+β1) = (β1+β2)(z−1), the polynomial (z+1)(z+β1)(z−β2) − kz(z−1) = 0 with k = 2p(β1+β2).

    Jury's test for the cubic z³ + a₂z² + a₁z + a₀: at 1 it is 2(1+β1)(1−β2) > 0, at −1 it is −2k < 0, |a₀| = β1β2 < 1,
    and what remains is |a₀a₂ − a₁| < 1 − a₀². Here a₀a₂ − a₁ = (β2−β1)(1+β1β2) − k(1−β1β2). Its upper side holds since
    β2 − β1 < 1 − β1β2; its lower side is k(1−β1β2) < (1+β1β2)(1 − β1β2 + β2 − β1) = (1+β1β2)(1−β1)(1+β2), the limit.

    λmax(P) is at least 1. The limit exceeds 1 if and only if (1−β2)((1−3β1) − β1(3−β1)β2) > 0, and at β2 = 1 the second
    factor is 1 − 6β1 + β1², positive for β1 < 3−2√2 = 0.1716 only. With β1 ≥ 1/3 it is not positive for any β2: at the
    usual β1 = 0.9 Adam has no stable 2-cycle.

    Checked as 5d, with m in the state.
    """
    rng = draw.rng
    beta1, beta2 = float(rng.choice([0.9, rng.uniform(0.001, 0.4)])), float(rng.uniform(0.01, 0.9999))
    room = floors.stability_limit(beta2, beta1) - 1
    side = (1 - 3 * beta1) - beta1 * (3 - beta1) * beta2
    agrees = room * side > 0 or abs(side) < 1e-9
    edge = 3 - 2 * np.sqrt(2)
    around = floors.stability_limit(1 - 1e-6, edge - 1e-4) > 1 > floors.stability_limit(1 - 1e-6, edge + 1e-4)
    observation = _stability(draw, beta1, float(rng.uniform(0, 0.09)))
    none = _none_stable(float(rng.uniform(1 / 3, 1)), beta2) >= 0
    return observation if agrees and around and none else Observation(-1.0)


def _none_stable(beta1: float, beta2: float) -> float:
    """How far the limit of stability is below 1, the least λmax(P), where β1 ≥ 1/3."""
    return 1 - floors.stability_limit(beta2, beta1) if beta1 >= 1 / 3 else np.inf


def _stability(draw: Draw, beta1: float, small: float) -> Observation:
    """A cycle's multipliers and its stability against the Jacobian; at equality with β1 = `small`."""
    rng = draw.rng
    n, beta2 = int(rng.integers(2, 6)), float(rng.uniform(0.05, 0.999))
    h = random_block(rng, n, 1e3)
    h = h / np.trace(h)
    signs, _ = floors.cycles(h)
    mild = [s for s in signs if floors.cycle_spectrum(h, s)[-1] < 1e3]  # beyond, rounding is magnified too much
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
    return Observation(min(room, -off), _edge(rng, small))


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


@proved(
    "5e",
    draws=300,
    tight=True,
    search=Search(
        [Matrix("h", 3), Axis("gap", 1e-3, 0.9, log=True)],
        lambda h, gap: _slack_5e(h, 1 - float(gap)),
        evaluations=3000,
    ),
)
def stable_is_high(draw: Draw) -> Observation:
    """A stable 2-cycle of Adam (β1 = 0, ε = 0) has sᵀHs ≥ (2β2/(1+β2)) SDP(H), so for β2 near 1 its loss is nearly the
    highest; the constant cannot be improved: two dimensions approach it.

    Stability (5d) means A^(−½)KA^(−½) ⪯ ((1+β2)/(2β2))I, that is K ⪯ ((1+β2)/(2β2))A, and conjugated with diag(s),
    which leaves the diagonal A alone, H ⪯ ((1+β2)/(2β2))A. So the diagonal of ((1+β2)/(2β2))A is feasible for the dual
    SDP(H) = min{ΣΛ_i : diag(Λ) ⪰ H}, and its sum is ((1+β2)/(2β2))·1ᵀK1 = ((1+β2)/(2β2))·sᵀHs. As SDP(H) ≥ every
    s′ᵀHs′, and ≥ tr H (X = I), a stable cycle is at least 2β2/(1+β2) of these; for β2 → 1 only global maximisers can be
    stable.

    The constant: H = [[1, b], [b, 1]] with b = −(1−β2)/(1+3β2) has, for s = (1, 1), A = (1+b)I and λmax(P) =
    (1−b)/(1+b), the limit of stability; sᵀHs = 2(1+b) while SDP(H) = 2(1−b). A slightly smaller |b| makes that cycle
    stable, and comes arbitrarily near to equality. It is Adam's lower one: the maximiser is (1, −1).
    """
    rng = draw.rng
    n, beta2 = int(rng.integers(1, 7)), float(1 - np.exp(rng.uniform(np.log(1e-3), np.log(0.9))))
    b = -(1 - beta2) / (1 + 3 * beta2) * (1 - 1e-8)
    return Observation(_slack_5e(random_block(rng, n, 1e3), beta2), _slack_5e(np.array([[1, b], [b, 1]]), beta2))


def _slack_5e(h: np.ndarray, beta2: float) -> float:
    """Slack of the lowest stable cycle above 5e's bound; infinite if there is none."""
    stable = [s for s in floors.cycles(h)[0] if floors.is_stable_cycle(h, s, beta2)]
    bound = floors.floor_bounds(one_block(h), 1.0, beta2).stable_cycle if stable else np.nan
    return min((floors.cycle_loss(h, s, 1.0) / bound - 1 for s in stable), default=np.inf)


@false("5e-unstable", draws=300)
def unstable_may_be_low(draw: Draw) -> Observation:
    """Every 2-cycle of Adam (β1 = 0, ε = 0), stable or not, has sᵀHs ≥ tr H.

    H = [[1, b], [b, 1]] with b near −1 and s = (1, 1): Hs = (1+b)s has the signs of s, and sᵀHs = 2(1+b) is arbitrarily
    small relative to tr H = 2. Such a cycle is unstable for every β2 > (1+b)/(1−3b), by 5d; random blocks have them
    too.
    """
    h = random_block(draw.rng, int(draw.rng.integers(2, 8)))
    return Observation(float(floors.cycles(h)[1].min() / np.trace(h) - 1))
