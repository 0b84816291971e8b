"""Ledger 5c to 5e: the 2-cycles of Adam at a constant learning rate, and their stability.

ε = 0, and β1 = 0 unless stated.
"""

from __future__ import annotations

import itertools

import numpy as np

from quadsim.claims.adversary import BLOCK, Axis, Search
from quadsim.claims.ledger import false, proved
from quadsim.claims.observations import Draw, Observation
from quadsim.claims.sampling import one_block, random_block
from quadsim.engine.solver import solve
from quadsim.optimizers import Adam
from quadsim.theory import floors, sdp

RETURN_TOL = 1e-3  # relative to lr: a point that returns this closely is on a cycle; a wrong sign moves it by 2 lr
MAX_SPECTRUM = 1e3  # largest λmax(P) of cycles that are checked: beyond, rounding is magnified too much


@proved("5c", draws=300, relation="equality")
def two_cycles(draw: Draw) -> Observation:
    """The 2-cycles with nonzero gradients, at β1 = 0 and ε = 0: for sign descent, the pairs c ± (lr/2)s with |(Hc)_i| <
    (lr/2)s_i(Hs)_i for all i; for Adam with 0 < β2 < 1, only those with c = 0, for every s with sign(Hs) = s, at a loss
    of (lr²/8)sᵀHs; at least one exists.

    Sign descent steps from c + (lr/2)s to c − (lr/2)s if the gradient Hc + (lr/2)Hs has the signs s, and back if Hc −
    (lr/2)Hs has the signs −s: both if and only if s_i(Hs)_i lr/2 > |(Hc)_i|.

    Adam: on a 2-cycle a coordinate's gradient alternates between p and q, and v between (p² + β2q²)/(1 + β2) after p
    and (q² + β2p²)/(1 + β2) after q. The two steps must cancel: p/√(p² + β2q²) = −q/√(q² + β2p²). Squared, this is β2p⁴
    = β2q⁴, so q = −p, v = p², and the step is lr·sign(p). If all gradients are opposite, so are the errors, hence e =
    ±(lr/2)s with s the signs of He, which are those of Hs. The loss is ½eᵀHe.

    Existence: flipping s_i changes sᵀHs by −4(s_i(Hs)_i − H_ii), so any s that maximises sᵀHs has s_i(Hs)_i ≥ H_ii > 0.

    Checked by two steps from every s and from random c, and by solving the equations of a 2-cycle from random points:
    every solution must be one of these cycles.
    """
    rng = draw.rng
    n, lr, beta2 = int(rng.integers(1, 6)), float(np.exp(rng.uniform(-4, 1))), rng.uniform(0.05, 0.999)
    h = random_block(rng, n)
    signs, sums = floors.cycles(h)
    pair_agrees = _sign_pair(rng, h, signs, lr)
    every = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    state = np.array([_on_cycle(h, s, lr, 0.0) for s in every]).T  # (3n, signs)
    returns = np.abs(_two_steps(h, state, lr, 0.0, beta2) - state)[:n].max(axis=0) < RETURN_TOL * lr
    agree = pair_agrees and {tuple(s) for s in every[returns]} == {tuple(s) for s in signs}
    agree &= _other_pair(rng, h, signs, beta2)
    top, s = sdp.largest_sign_sum(h)
    existence = (s * (h @ s) / np.diag(h)).min() - 1
    adam = Adam(lr=lr, beta1=0.0, beta2=beta2, eps=0.0, init="gradient")
    loss = solve(one_block(h), adam, w0=lr / 2 * s, tol=0, max_steps=3, record=1).loss
    off = np.abs(loss / floors.cycle_loss(h, s, lr) - 1).max() + abs(top / sums[0] - 1)
    return Observation(min(existence, -off) if agree else -1.0)


def _sign_pair(rng: np.random.Generator, h: np.ndarray, signs: np.ndarray, lr: float) -> bool:
    """Whether sign descent alternates between c ± (lr/2)s if and only if the condition of 5c holds, for one s and c."""
    n = len(h)
    s = signs[int(rng.integers(len(signs)))] if rng.uniform() < 0.7 else rng.choice([-1.0, 1.0], n)
    share = rng.uniform(-0.99, 0.99, n)
    if rng.uniform() < 0.5:
        share[int(rng.integers(n))] = rng.choice([-1, 1]) * rng.uniform(1.01, 1.3)  # violates the condition
    c = np.linalg.solve(h, share * lr / 2 * np.abs(h @ s))
    expected = (np.abs(h @ c) < lr / 2 * s * (h @ s)).all()
    descent, ends = Adam(lr=lr, beta1=0.0, beta2=0.0, eps=0.0), (c + lr / 2 * s, c - lr / 2 * s)
    first, second = (solve(one_block(h), descent, w0=ends[0], tol=0, max_steps=t).w for t in (1, 2))
    off = max(np.abs(first - ends[1]).max(), np.abs(second - ends[0]).max())
    return (off < RETURN_TOL * (lr + np.abs(c).max())) == expected


def _other_pair(rng: np.random.Generator, h: np.ndarray, signs: np.ndarray, beta2: float) -> bool:
    """Whether a solution of the equations of a 2-cycle at lr = 1, found from a random point if any, is e = ±s/2."""
    from scipy.optimize import root

    n = len(h)

    def residuals(both: np.ndarray) -> np.ndarray:
        e, after = np.split(both, 2)
        p, q = h @ e, h @ after
        steps = [a / np.sqrt((a * a + beta2 * b * b) / (1 + beta2)) for a, b in ((p, q), (q, p))]
        return np.concatenate([e - after - steps[0], after - e - steps[1]])

    solution = root(residuals, rng.standard_normal(2 * n))
    gradients = np.abs(h @ solution.x.reshape(2, n).T)
    if not solution.success or np.abs(solution.fun).max() > 1e-9 or gradients.min() < 1e-6 * gradients.max():
        return True
    e, after = np.split(solution.x, 2)
    opposite = np.abs(e + after).max() < RETURN_TOL and np.abs(np.abs(e) - 0.5).max() < RETURN_TOL
    return opposite and any((np.sign(e) * np.sign(e[0]) == s).all() for s in signs)


def stable_cycles(block: np.ndarray, beta2: float) -> list[np.ndarray]:
    """The sign vectors of the stable 2-cycles, the highest first."""
    return [s for s in floors.cycles(block)[0] if floors.is_stable_cycle(block, s, beta2)]


def _spectral_radius(matrix: np.ndarray) -> float:
    return np.abs(np.linalg.eigvals(matrix)).max()


def _checked_cycles(h: np.ndarray) -> list[np.ndarray]:
    return [s for s in floors.cycles(h)[0] if floors.cycle_spectrum(h, s)[-1] < MAX_SPECTRUM]


def _radius_slack(h: np.ndarray, s: np.ndarray, beta1: float, beta2: float) -> float:
    """The distance of the spectral radius from 1, negative if it is on the wrong side."""
    return (1 - _spectral_radius(_jacobian(h, s, beta1, beta2))) * (
        1 if floors.is_stable_cycle(h, s, beta2, beta1) else -1
    )


def _label_slack(h: np.ndarray, gap: float, beta1: float = 0.0) -> float:
    """Slack of 5d and 5d-momentum for all cycles of one block."""
    return min([_none_stable(beta1, 1 - gap), *(_radius_slack(h, s, beta1, 1 - gap) for s in _checked_cycles(h))])


# rounding: the square root of rounding, for a double eigenvalue on the unit circle
GAP = Axis("gap", 1e-3, 0.95, log=True)
STABILITY, STABILITY_WITH_MOMENTUM = (
    Search([BLOCK, *axes], _label_slack, evaluations=2000, rounding=1e-6)
    for axes in ([GAP], [Axis("beta1", 0, 0.95), GAP])
)


# rounding: determinants of up to fifteen multipliers, a few of them nearly 1e6
@proved("5d", draws=300, tight=True, rounding=1e-7, search=STABILITY)
def stability(draw: Draw) -> Observation:
    """A 2-cycle of Adam (β1 = 0, ε = 0, 0 < β2 < 1) is linearly stable if and only if λmax(P) < (1+β2)/(2β2), where P =
    A⁻¹K, K = diag(s)H diag(s), A = diag(K1). The multipliers of an eigenvalue p of P are the roots of z² − (β2−1+2β2p)z
    + β2(2p−1) = 0. For p = 1 and β2 > 1/9 both have |z| = √β2; for p → 0 the slower one has |z| ≈ 1 − 4pβ2/(1+β2).

    In the coordinates u_t = (−1)^t s·e_t the cycle is the fixed point u = lr/2, with gradients a_i lr/2, a = K1. Let x
    be the relative perturbation of u, and ν half the relative perturbation of v. The relative perturbation of the
    gradient is γ = A⁻¹Kx = Px. Then ν ← β2ν + (1−β2)γ. The relative perturbation of a step, which is twice the
    amplitude, is γ − ν with the new ν, and u ← −u + step, so x ← −x + 2(γ − ν): in terms of the old values x ← −x +
    2β2(Px − ν) and ν ← β2ν + (1−β2)Px.

    Along an eigenvector of P with eigenvalue p, the matrix of this recursion has trace 2β2p − 1 + β2 and determinant
    β2(2p − 1), which gives the quadratic. Jury's test for both roots within the unit circle: the quadratic at 1 is 2(1
    − β2) > 0; at −1 it is 4β2p > 0; the determinant is at least −β2 > −1, and it is below 1 if and only if p <
    (1+β2)/(2β2). P is similar to the positive definite A^(−½)KA^(−½), so its eigenvalues are positive; P1 = 1.

    At p = 1 the quadratic is z² − (3β2−1)z + β2, of discriminant (9β2−1)(β2−1): for β2 > 1/9 its roots are conjugate,
    with |z|² = β2. For small p the root near −1 is −1 + 4β2p/(1+β2) + O(p²), as the slope there is −(1+β2) at p = 0:
    along a nearly flat direction of P a decay by the factor e takes about (1+β2)/(4β2p) steps.

    Checked against the Jacobian of two steps of Adam, by its characteristic polynomial at random points and by its
    spectral radius; equality at the β2 at which the limit is λmax(P), where the radius is 1.
    """
    observation = _stability(draw, 0.0, 0.0)
    beta2, p = draw.rng.uniform(0.12, 0.999), np.exp(draw.rng.uniform(np.log(1e-6), np.log(1e-4)))
    b = (1 - p) / (1 + p)  # with s = (1, 1), P has the eigenvalues p and 1
    of_p, of_one = np.abs(floors.cycle_multipliers(np.array([[1, b], [b, 1]]), np.ones(2), beta2))
    decay = (1 - of_p.max()) / (4 * p * beta2 / (1 + beta2))
    off = max(np.abs(of_one / np.sqrt(beta2) - 1).max(), abs(decay - 1) - 5 * p, 0.0)  # O(p) is allowed
    return observation._replace(slack=min(observation.slack, -off))


# rounding: as for 5d
@proved("5d-momentum", draws=300, tight=True, rounding=1e-7, search=STABILITY_WITH_MOMENTUM)
def stability_with_momentum(draw: Draw) -> Observation:
    """With β1 > 0 and ε = 0 Adam's 2-cycles with nonzero gradients are e = ±(lr/2)((1−β1)/(1+β1))s for the s of 5c,
    linearly stable if and only if λmax(P) < (1+β1β2)(1−β1)(1+β2)/(2(β1+β2)(1−β1β2)). No cycle is stable if β2 ≥
    (1−3β1)/(β1(3−β1)): none for β2 → 1 if β1 > 3−2√2, and none for any β2 if β1 ≥ 1/3.

    On a 2-cycle on which the gradient of a coordinate alternates between p and q, m is (p+β1q)/(1+β1) and
    (q+β1p)/(1+β1), and v as in 5c. Squared, the condition that the steps cancel is (p²−q²)[(β2−β1²)(p²+q²) −
    2β1(1−β2)pq] = 0. If the bracket vanishes with |p| ≠ |q|, the two m have the same sign: for β2 > β1² p and q have
    the same sign; β2 = β1² would need pq = 0; for β2 < β1² they differ in sign, and r = |p/q| or its inverse, whichever
    is above 1, has r + 1/r = 2β1(1−β2)/(β1²−β2) > β1 + 1/β1, so r > 1/β1, and both m have the sign of the larger
    gradient. For p = q the steps do not cancel either. So q = −p, v = p², m is (1−β1)/(1+β1) times the gradient, and
    errors are opposite as in 5c.

    Linearised as in 5d, with ω the perturbation of m relative to ((1−β1)/(1+β1))g: ω ← −β1ω + (1+β1)Px, ν ← β2ν +
    (1−β2)Px, x ← −x + 2(ω − ν). Along an eigenvalue p this gives z + 1 = 2p((1+β1)z/(z+β1) − (1−β2)z/(z−β2)), and since
    (1+β1)(z−β2) − (1−β2)(z+β1) = (β1+β2)(z−1), the polynomial (z+1)(z+β1)(z−β2) − kz(z−1) = 0 with k = 2p(β1+β2).

    Jury's test for the cubic z³ + a₂z² + a₁z + a₀: at 1 it is 2(1+β1)(1−β2) > 0, at −1 it is −2k < 0, |a₀| = β1β2 < 1,
    and the remaining condition is |a₀a₂ − a₁| < 1 − a₀². Here a₀a₂ − a₁ = (β2−β1)(1+β1β2) − k(1−β1β2). The upper
    inequality holds since β2 − β1 < 1 − β1β2; the lower one is k(1−β1β2) < (1+β1β2)(1 − β1β2 + β2 − β1) =
    (1+β1β2)(1−β1)(1+β2), the limit.

    λmax(P) is at least 1. The limit exceeds 1 if and only if (1−β2)((1−3β1) − β1(3−β1)β2) > 0, and at β2 = 1 the second
    factor is 1 − 6β1 + β1², positive only for β1 < 3−2√2 = 0.1716. For β1 ≥ 1/3 it is not positive for any β2: at the
    usual β1 = 0.9 Adam has no stable 2-cycle.

    Checked like 5d, with m in the state.
    """
    rng = draw.rng
    beta1, beta2 = float(rng.choice([0.9, rng.uniform(0.001, 0.4)])), rng.uniform(0.01, 0.9999)
    side = (1 - 3 * beta1) - beta1 * (3 - beta1) * beta2
    agrees = (floors.stability_limit(beta2, beta1) - 1) * side > 0 or abs(side) < 1e-9
    edge = 3 - 2 * np.sqrt(2)
    around = floors.stability_limit(1 - 1e-6, edge - 1e-4) > 1 > floors.stability_limit(1 - 1e-6, edge + 1e-4)
    observation = _stability(draw, beta1, rng.uniform(0, 0.09))
    none = _none_stable(rng.uniform(1 / 3, 1), beta2) >= 0
    return observation if agrees and around and none else Observation(-1.0)


def _none_stable(beta1: float, beta2: float) -> float:
    """1, the least λmax(P), minus the limit of stability, if β1 ≥ 1/3."""
    return 1 - floors.stability_limit(beta2, beta1) if beta1 >= 1 / 3 else np.inf


def _stability(draw: Draw, beta1: float, small: float) -> Observation:
    """The multipliers and the stability of a cycle against the Jacobian; equality at β1 = `small`."""
    rng = draw.rng
    n, beta2 = int(rng.integers(2, 6)), rng.uniform(0.05, 0.999)
    h = random_block(rng, n, 1e3)
    h = h / np.trace(h)
    checked = _checked_cycles(h)
    s = checked[int(rng.integers(len(checked)))]
    state = _on_cycle(h, s, 1.0, beta1)
    off = np.abs(_two_steps(h, state, 1.0, beta1, beta2) / state - 1).max()
    off += abs(0.5 * state[:n] @ h @ state[:n] / floors.cycle_loss(h, s, 1.0, beta1) - 1)
    jacobian = _jacobian(h, s, beta1, beta2)
    radius = _spectral_radius(jacobian)
    squares = floors.cycle_multipliers(h, s, beta2, beta1).ravel() ** 2
    squares = np.concatenate([squares, np.zeros(3 * n - squares.size)])  # at β1 = 0, m has no memory
    for z in 1.5 * max(radius, 1) * np.exp(2j * np.pi * rng.uniform(size=3 * n)):
        off = max(off, abs(np.linalg.det(np.eye(3 * n) - jacobian / z) / np.prod(1 - squares / z) - 1))
    return Observation(min(_radius_slack(h, s, beta1, beta2), -off), _edge(rng, small))


def _edge(rng: np.random.Generator, beta1: float) -> float | None:
    """The distance of the spectral radius from 1 at the β2 at which the limit of stability is λmax(P).

    For a pair and s = (1, 1); None if there is no such β2.
    """
    from scipy.optimize import brentq

    c = rng.uniform(0.7, 1.4)
    b = -rng.uniform(0.05, 0.5) * min(c, 1 / c)  # so that s is a cycle, and λmax(P) above 1
    h, s = np.array([[1, b * c], [b * c, c * c]]), np.ones(2)
    top, ends = float(floors.cycle_spectrum(h, s)[-1]), (1e-3, 1 - 1e-6)
    if not floors.stability_limit(ends[0], beta1) > top > floors.stability_limit(ends[1], beta1):
        return None
    beta2 = brentq(lambda beta2: floors.stability_limit(beta2, beta1) - top, *ends, xtol=1e-15)
    return abs(_spectral_radius(_jacobian(h, s, beta1, beta2)) - 1)


def _on_cycle(h: np.ndarray, s: np.ndarray, lr: float, beta1: float) -> np.ndarray:
    """The state (e, m, v) of Adam before a step on the cycle of s."""
    share = (1 - beta1) / (1 + beta1)
    e = lr / 2 * share * s
    return np.concatenate([e, -share * (h @ e), (h @ e) ** 2])


def _two_steps(h: np.ndarray, state: np.ndarray, lr: float, beta1: float, beta2: float) -> np.ndarray:
    """Two steps of Adam from a state, or from each column of several; states may be complex."""
    e, m, v = np.split(state, 3)
    for _ in range(2):
        g = h @ e
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        e = e - lr * m / np.sqrt(v)
    return np.concatenate([e, m, v])


def _jacobian(h: np.ndarray, s: np.ndarray, beta1: float, beta2: float) -> np.ndarray:
    """Of two steps on the cycle of s at lr = 1, by complex-step differentiation, which does not cancel."""
    state, step = _on_cycle(h, s, 1.0, beta1), 1e-40
    return _two_steps(h, state[:, None] + 1j * step * np.eye(state.size), 1.0, beta1, beta2).imag / step


def _slack_5e(h: np.ndarray, gap: float) -> float:
    """Slack of the lowest stable cycle above the bound of 5e; infinite if there is no stable cycle."""
    beta2 = 1 - gap
    stable = stable_cycles(h, beta2)
    bound = floors.floor_bounds(one_block(h), 1.0, beta2).stable_cycle if stable else np.nan
    return min((floors.cycle_loss(h, s, 1.0) / bound - 1 for s in stable), default=np.inf)


LOWEST_STABLE_CYCLE = Search([BLOCK, Axis("gap", 1e-3, 0.9, log=True)], _slack_5e, evaluations=3000)


@proved("5e", draws=300, tight=True, search=LOWEST_STABLE_CYCLE)
def stable_is_high(draw: Draw) -> Observation:
    """A stable 2-cycle of Adam (β1 = 0, ε = 0) has sᵀHs ≥ (2β2/(1+β2)) SDP(H), so for β2 near 1 its loss is nearly the
    highest. The constant cannot be improved: it is approached in two dimensions.

    Stability (5d) means A^(−½)KA^(−½) ⪯ ((1+β2)/(2β2))I, that is K ⪯ ((1+β2)/(2β2))A. Conjugation with diag(s), which
    does not change the diagonal matrix A, gives H ⪯ ((1+β2)/(2β2))A. So the diagonal of ((1+β2)/(2β2))A is feasible for
    the dual SDP(H) = min{ΣΛ_i : diag(Λ) ⪰ H}, and its sum is ((1+β2)/(2β2))·1ᵀK1 = ((1+β2)/(2β2))·sᵀHs. As SDP(H) ≥
    s′ᵀHs′ for every s′, and SDP(H) ≥ tr H (X = I), sᵀHs of a stable cycle is at least 2β2/(1+β2) times these; for β2 →
    1 only global maximisers can be stable.

    The constant: H = [[1, b], [b, 1]] with b = −(1−β2)/(1+3β2) has, for s = (1, 1), A = (1+b)I and λmax(P) =
    (1−b)/(1+b), the limit of stability; sᵀHs = 2(1+b) while SDP(H) = 2(1−b). With a slightly smaller |b| this cycle is
    stable, and arbitrarily close to equality. It is the lower of Adam's two cycles: the maximiser is (1, −1).
    """
    rng = draw.rng
    n, gap = int(rng.integers(1, 7)), float(np.exp(rng.uniform(np.log(1e-3), np.log(0.9))))
    b = -(1 - (1 - gap)) / (1 + 3 * (1 - gap)) * (1 - 1e-8)
    return Observation(_slack_5e(random_block(rng, n, 1e3), gap), _slack_5e(np.array([[1, b], [b, 1]]), gap))


@false("5e-unstable", draws=300)
def unstable_may_be_low(draw: Draw) -> Observation:
    """Every 2-cycle of Adam (β1 = 0, ε = 0), stable or not, has sᵀHs ≥ tr H.

    H = [[1, b], [b, 1]] with b near −1 and s = (1, 1): Hs = (1+b)s has the signs of s, and sᵀHs = 2(1+b) is arbitrarily
    small relative to tr H = 2. Such a cycle is unstable for every β2 > (1+b)/(1−3b), by 5d; random blocks have such
    cycles too.
    """
    h = random_block(draw.rng, int(draw.rng.integers(2, 8)))
    return Observation(floors.cycles(h)[1].min() / np.trace(h) - 1)
