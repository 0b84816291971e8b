"""Ledger 2: frozen Adam (β2 = 1, v fixed at the first squared gradient)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadsim import theory
from quadsim.claims.adversary import BLOCK, ERROR, Axis, Matrix, Search
from quadsim.claims.ledger import Claim, Verdict, exact_result, false, proved
from quadsim.claims.observations import Draw, Observation, least_slack, values_of
from quadsim.claims.sampling import (
    EPS,
    diagonal_problem,
    frozen_against_scaled,
    loss_ratios,
    one_block,
    random_block,
    random_problem,
    random_problem_and_error,
    random_start,
    run_compiled,
    two_blocks,
)
from quadsim.engine.closed_form.exact import exact
from quadsim.optimizers import GD, Adam, FrozenAdam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import case


def _search(slack: Callable[[BlockQuadratic, np.ndarray], float], evaluations: int = 4000) -> Search:
    """A search over two blocks of size two, and an error in a direction of each, with norms in a ratio of up to 100."""

    def margin(first: np.ndarray, second: np.ndarray, scale: float, angles: np.ndarray, ratio: float) -> float:
        e = np.array([np.cos(angles), np.sin(angles)]).T
        return slack(two_blocks(first, second, scale), np.concatenate([e[0], ratio * e[1]]))

    scale, ratio = Axis("scale", 1e-2, 1e2, log=True), Axis("ratio", 1e-2, 1e2, log=True)
    axes = [Matrix("first", 2), Matrix("second", 2), scale, Axis("angles", 0, 2 * np.pi, 2), ratio]
    return Search(axes, margin, evaluations=evaluations)


@exact_result("2a", draws=300, rounding=1e-9, relation="equality")
def scaled_descent(draw: Draw) -> Observation:
    """Frozen Adam (β1 = 0) is GD on S = D^-½HD^-½, D = diag|g₀|: z = D^-½g follows z ← (I − lr·S)z, and loss = ½zᵀS⁻¹z.

    The step is w ← w − lr·D⁻¹g, so g = He follows g ← g − lr·HD⁻¹g. Multiplied by D^-½ from the left this is z ← z −
    lr·D^-½HD^-½z. And e = H⁻¹g = D^-½S⁻¹z, so eᵀHe = zᵀS⁻¹z. The start is z₀ = √|g₀|·sign g₀: the absolute values of
    the components of the first gradient determine both the scaling and the size of the start.
    """
    problem = random_problem(draw.rng, max_kappa=1e4)
    w0 = random_start(draw.rng, problem)
    lr, steps = draw.rng.uniform(0.05, 1.9), int(draw.rng.integers(1, 40))
    off, loss, run = frozen_against_scaled(problem, w0, lr, 0.0, steps)
    return Observation(-max(off, abs(run.loss[-1] - loss) / max(loss, 1e-6 * run.loss[0])))


def _frozen_step(h: np.ndarray, e: np.ndarray, factor: float) -> float:
    """Slack of 2a-rate at `factor` times the best lr, in one step and of the bound above the best bound."""
    problem, g = one_block(h), h @ e
    if not g.all():
        return np.inf
    best, other = _best_and_scaled(problem, e, factor)
    best_bound, bound = (theory.rate(problem, adam, e) for adam in (best, other))
    after = e - other.lr * g / np.abs(g)
    if min(best_bound, bound) < 1e-6:
        return np.inf
    return min(1 - (after @ h @ after) / (e @ g) / bound, bound / best_bound - 1)


def _best_and_scaled(problem: BlockQuadratic, w0: np.ndarray, factor: float) -> tuple[FrozenAdam, FrozenAdam]:
    """Frozen Adam at its best lr, and at `factor` times this lr."""
    best: Any = FrozenAdam().with_best_lr(problem, w0 - problem.minimizer)
    return best, FrozenAdam(lr=best.lr * factor)


FACTOR_ON_LR = Search([BLOCK, ERROR, Axis("factor", 0.1, 10, log=True)], _frozen_step)


@proved("2a-rate", draws=300, tight=True, rounding=1e-8, search=FACTOR_ON_LR)
def scaled_rate(draw: Draw) -> Observation:
    """A step of frozen Adam multiplies the loss by at most max_i (1 − lr·s_i)², where s_i are the eigenvalues of S. At
    lr = 2/(s_min+s_max) this is ((κ_eff−1)/(κ_eff+1))²; no constant lr has a smaller bound, and it is the exact
    asymptotic rate whenever z₀ has a component along an eigenvector of s_min or of s_max.

    This is 1a for S (2a). The two ends balance at lr = 2/(s_min+s_max), and no other lr makes the larger of them
    smaller. The other modes decay faster than the extreme ones, so the ratio of successive losses tends to the bound
    whenever the start excites an extreme mode; z₀ does so unless a component of Uᵀz₀ vanishes, which can be checked and
    is not generic.
    """
    problem = random_problem(draw.rng, max_kappa=1e4)
    w0 = random_start(draw.rng, problem)
    best, other = _best_and_scaled(problem, w0, np.exp(draw.rng.normal(0, 0.5)))
    best_bound, bound = (theory.rate(problem, adam, w0) for adam in (best, other))
    ke = theory.kappa_eff(problem, w0)
    if best_bound < 1e-6:
        return Observation()
    slack = (1 - loss_ratios(problem, other, w0) / bound).min(initial=np.inf)
    formula = -abs(best_bound / ((ke - 1) / (ke + 1)) ** 2 - 1)
    late = int(min(1e8 * ke, 4e11)) + 1  # only the extreme modes are left
    slope = np.diff(exact(problem, best, w0=w0, tol=0, at=[late, 2 * late]).log_loss)[0] / late
    return Observation(min(slack, formula, bound / best_bound - 1), abs(slope / np.log(best_bound) - 1))


def _slack_2b(problem: BlockQuadratic, error: np.ndarray) -> float:
    """Slack of 2b over four steps."""
    w0 = problem.minimizer + error
    if not problem.grad(w0).all():
        return np.inf
    lr, bound = theory.block_rate(problem, w0)
    slack = (1 - loss_ratios(problem, FrozenAdam(lr=lr), w0, 4) / bound).min(initial=np.inf)
    return slack if bound >= 1e-6 and lr >= 1e-30 else np.inf


@proved("2b", draws=500, tight=True, search=_search(_slack_2b, evaluations=3000))
def sharp_theorem(draw: Draw) -> Observation:
    """With lr = min_k C_{k,1}, a step of frozen Adam multiplies the loss by at most max_l (1 − lr/(C_{l,2} κ_l))²,
    where C_{l,1} and C_{l,2} are the least and largest |g₀| of block l over its largest eigenvalue: the sharp form of
    the paper's Theorem 1.

    y = H^½e follows y ← (I − lr·M)y with M = H^½D⁻¹H^½ block-diagonal, and loss = ½|y|². For a unit vector x in block
    l, xᵀMx = Σ_i [H^½x]ᵢ²/|g₀,i| lies between |H^½x|²/max|g₀| and |H^½x|²/min|g₀|, so M's eigenvalues m in block l lie
    in [λ_min/max|g₀|, λ_max/min|g₀|] = [1/(κ_l C_{l,2}), 1/C_{l,1}]. Since lr ≤ C_{l,1}, 0 ≤ 1 − lr·m ≤ 1 − lr/(κ_l
    C_{l,2}).

    Equality: H = diag(1, k), |g₀| = (G, g) with G ≥ g. The second mode vanishes in the first step, and then the first
    contracts by exactly the bound.
    """
    slack = _slack_2b(*random_problem_and_error(draw.rng))
    problem, w0 = _random_pair(draw.rng)
    lr, bound = theory.block_rate(problem, w0)
    ratios = loss_ratios(problem, FrozenAdam(lr=lr), w0)[1:]
    return Observation(slack, np.abs(ratios / bound - 1).max() if ratios.size and bound > 1e-3 else None)


def _random_pair(rng: np.random.Generator) -> tuple[BlockQuadratic, np.ndarray]:
    """H = diag(1, k), and a start with |g₀| = (G, g), G ≥ g: equality in 2b and 2d."""
    k, small, large = np.exp(rng.uniform([0.1, -2, 0], [8, 0, 2]))
    return diagonal_problem([1.0, k]), np.array([large, small / k])


def _slack_2c(problem: BlockQuadratic, error: np.ndarray) -> float:
    w0 = problem.minimizer + error
    _, sharp = theory.block_rate(problem, w0)
    middle = np.max(1 - 1 / (theory.r(problem, w0) ** 0.5 * np.array(problem.block_kappas))) ** 2
    paper = theory.theorem_1(problem, w0)[1]
    return min(middle - sharp, paper - middle)


@proved("2c", draws=600, search=_search(_slack_2c))
def theorem_chain(draw: Draw) -> Observation:
    """The bound 2b is at most max_l (1 − 1/(√r κ_l))², which is at most max_l (1 − 1/(r κ_l)), the bound of the paper's
    Theorem 1; that is correct but loose in two ways: r in place of √r, and no square.

    By the definition of r, lr = min C_{k,1} ≥ C_{l,2}/√r for every l, so lr/(C_{l,2}κ_l) ≥ 1/(√r κ_l). And r ≥ 1 with
    (1 − x)² ≤ 1 − x on [0, 1] gives (1 − 1/(√r κ_l))² ≤ 1 − 1/(√r κ_l) ≤ 1 − 1/(r κ_l).
    """
    return Observation(_slack_2c(*random_problem_and_error(draw.rng)))


def _slack_2d(problem: BlockQuadratic, error: np.ndarray) -> float:
    w0 = problem.minimizer + error
    if not problem.grad(w0).all() or theory.r(problem, w0) > 1e12:
        return np.inf
    sharper, looser = theory.block_scaling_bound(problem, w0)
    return min(1 - theory.kappa_eff(problem, w0) / sharper, 1 - sharper / looser)


# rounding: the relative error of κ_eff is eps·κ_eff
@proved("2d", draws=400, tight=True, rounding=1e-6, search=_search(_slack_2d))
def kappa_eff_upper(draw: Draw) -> Observation:
    """κ_eff ≤ max_l (κ_l C_{l,2}) / min_l C_{l,1} ≤ √r max_l κ_l; equality holds for H = diag(1, k) with |g₀| = (G, g),
    G ≥ g.

    M of 2b has the eigenvalues of S, since M = H^½D⁻¹H^½ and S = D^-½HD^-½ are XᵀX and XXᵀ for X = D^-½H^½. They lie in
    the intervals of 2b: the largest is at most 1/min C_{l,1}, the smallest at least 1/max(κ_l C_{l,2}).
    """
    slack = _slack_2d(*random_problem_and_error(draw.rng, max_kappa=1e4))
    problem, w0 = _random_pair(draw.rng)
    bound = theory.r(problem, w0) ** 0.5 * problem.eigenvalues[0][-1]
    return Observation(slack, abs(theory.kappa_eff(problem, w0) / bound - 1))


def _unit_diagonal(block: np.ndarray) -> np.ndarray:
    return block / np.sqrt(np.outer(np.diag(block), np.diag(block)))


def _slack_2e(problem: BlockQuadratic, error: np.ndarray) -> float:
    w0 = problem.minimizer + error
    ke, (lower, upper) = theory.kappa_eff(problem, w0), theory.scaling_bounds(problem, w0)
    values = [np.linalg.eigvalsh(_unit_diagonal(block)) for block in problem.blocks]
    loosest = max(each[-1] for each in values) / min(each[0] for each in values) * lower
    return min(1 - lower / ke, 1 - ke / upper, 1 - upper / loosest)


@proved("2e", draws=400, tight=True, rounding=1e-6, search=_search(_slack_2e))
def kappa_eff_two_sided(draw: Draw) -> Observation:
    """With a_i = H_ii/|g₀,i| and J_l the unit-diagonal scaling of block l: max a/min a ≤ κ_eff ≤ max_l[a_{l,max}
    λ_max(J_l)] / min_l[a_{l,min} λ_min(J_l)] ≤ κ(J) max a/min a; all are equal for a diagonal H.

    S = A^½JA^½ with A = diag(a) and J = diag(H)^-½ H diag(H)^-½. In each block, for a unit vector x, xᵀA^½JA^½x lies
    between λ_min(J_l) and λ_max(J_l) times xᵀAx, and xᵀAx between a_{l,min} and a_{l,max} (Ostrowski): this is the
    upper bound. The lower bound: the diagonal entries S_ii = a_i of a symmetric matrix lie between its extreme
    eigenvalues. For a diagonal H, J is the identity.
    """
    slack = _slack_2e(*random_problem_and_error(draw.rng, max_kappa=1e4))
    diagonal = case(3, rotation=0)
    start = random_start(draw.rng, diagonal)
    low, high = theory.scaling_bounds(diagonal, start)
    return Observation(slack, max(abs(low / theory.kappa_eff(diagonal, start) - 1), abs(high / low - 1)))


def _slack_sluis(block: np.ndarray, scales: np.ndarray) -> float:
    """Slack of 2e-sluis at one diagonal scaling."""
    other = np.linalg.cond(block * np.outer(scales, scales))
    return 1 - np.linalg.cond(_unit_diagonal(block)) / (len(block) * other)


BLOCK_AND_SCALING = (Matrix("block", 3, least=1e-4), Axis("scales", 1e-2, 1e2, 3, log=True))


@proved("2e-sluis", draws=400, search=Search(BLOCK_AND_SCALING, _slack_sluis))
def van_der_sluis(draw: Draw) -> Observation:
    """Scaling a block to unit diagonal is within a factor of its size of the best diagonal scaling: κ(J) ≤ n·min_D
    κ(DHD).

    Van der Sluis (1969). For any D, put K = DHD and let Δ be its diagonal: J = Δ^-½KΔ^-½. Then λ_max(J) ≤ tr J = n, and
    for a unit vector x, xᵀJx ≥ λ_min(K)·xᵀΔ⁻¹x ≥ λ_min(K)/max_i K_ii ≥ λ_min(K)/λ_max(K) = 1/κ(K). So κ(J) ≤ n·κ(DHD).

    The check draws D around the unit-diagonal scaling; the search chooses block and D together.
    """
    n = int(draw.rng.integers(2, 6))
    block = random_block(draw.rng, n)
    return Observation(_slack_sluis(block, np.diag(block) ** -0.5 * np.exp(draw.rng.standard_normal(n))))


def _excess(block: np.ndarray) -> float:
    """1 − κ(J)/κ of a block."""
    return 1 - np.linalg.cond(_unit_diagonal(block)) / np.linalg.cond(block)


@false("2e-jacobi", draws=300, search=Search([Matrix("block", 3, scales=1.5)], _excess))
def jacobi_can_hurt(draw: Draw) -> Observation:
    """Scaling a block to unit diagonal never increases its condition number: κ(J_l) ≤ κ_l.

    In two dimensions this is true (8), in three it is not: the best diagonal scaling need not have a constant diagonal.
    Unit-diagonal scaling increases κ of some random blocks that are already well scaled; the search finds by how much.
    """
    scales = np.exp(0.1 * draw.rng.standard_normal(3))
    return Observation(_excess(random_block(draw.rng, 3, 1e3) * np.outer(scales, scales)))


@exact_result("2f", draws=300, rounding=1e-10, relation="equality")
def block_scale(draw: Draw) -> Observation:
    """Multiplying each block by a positive number changes neither κ_eff nor the path of Adam with ε = 0; it does change
    the path of GD.

    H_l → c_l H_l multiplies g_l by c_l at every step. Adam's step m/√v is homogeneous of degree 0 in the gradients of
    its coordinate, so it does not change. Neither do S = D^-½HD^-½ and κ_eff. GD's step is homogeneous of degree 1. (In
    float64 powers of two change no bit: 6-bits.)
    """
    problem = random_problem(draw.rng, max_kappa=1e3)
    w0, scales = random_start(draw.rng, problem), np.exp(draw.rng.uniform(-4, 4, len(problem.blocks)))
    blocks = [c * block for c, block in zip(scales, problem.blocks, strict=True)]
    scaled = BlockQuadratic.from_blocks(blocks, minimizer=problem.minimizer)
    e = w0 - problem.minimizer
    size = np.abs(e).max()
    adam = Adam(lr=float(size) * 0.01, beta1=draw.rng.uniform(0, 0.9), beta2=0.99, eps=0.0)
    perturbed = problem.minimizer + e * (1 + EPS * draw.rng.choice([-1, 1], problem.dim))
    starts = ((problem, w0), (scaled, w0), (problem, perturbed))
    path, other, response = (run_compiled(one, adam, start, 30).w for one, start in starts)
    # Adam magnifies rounding where a gradient passes through zero: the path may change as much as after a perturbation
    # of eps, times a thousand for about a thousand roundings
    off = np.abs(path - other).max() - 1000 * np.abs(path - response).max()
    gd = [run_compiled(one, GD(lr=0.1 / problem.lipschitz), w0, 3).w for one in (problem, scaled)]
    if np.abs(gd[0] - gd[1]).max() < 1e-6 * size:
        return Observation(-1.0)  # GD must depend on the scales
    ke = [theory.kappa_eff(one, w0) for one in (problem, scaled)]
    return Observation(-max(off / size, abs(ke[1] / ke[0] - 1) - 100 * EPS * ke[0], 0.0))


def _slack_cosines(problem: BlockQuadratic) -> float:
    cosines, least = theory.cosines(problem)
    return min((cosines / least - 1).min(), (1 - cosines).min())


COSINES = Search([Matrix("h", 3, least=1e-4)], lambda h: _slack_cosines(one_block(h)))


def _judge_normal(claim: Claim, observations: list[Observation]) -> Verdict:
    from scipy.stats import kstest

    margin = least_slack(observations)
    p = kstest(values_of(observations), "norm").pvalue
    evidence = f"cosines within their bounds; the N_i are standard normal (Kolmogorov–Smirnov p = {p:.2g})"
    fits = margin >= -claim.rounding and not p < 1e-5
    return claim.verdict(margin, evidence, confirmed=fits, enough=len(observations) >= 100)


@exact_result("2f-law", draws=500, rounding=1e-6, judge=_judge_normal, search=COSINES)
def cosine_law(draw: Draw) -> Observation:
    """From a standard Gaussian error, a_i = cos_i/|N_i| with each N_i standard normal (not independent) and cos_i =
    H_ii/|Hu_i| between 2√κ_l/(1+κ_l) and 1, where u_i is the i-th unit vector.

    g₀,i = (He₀)_i is normal with standard deviation |Hu_i|, the length of the i-th column of H; so a_i = H_ii/|g₀,i| =
    cos_i/|N_i|. cos_i is the cosine of the angle between u_i and Hu_i; by Kantorovich's inequality (xᵀHx)²/(|x|²|Hx|²)
    ≥ 4μL/(μ+L)², whose square root at x = u_i, with μ and L of the block, is the lower end.
    """
    problem = random_problem(draw.rng, max_kappa=1e4)
    g = problem.hvp(draw.rng.standard_normal(problem.dim))[0]
    block = problem.blocks[0]
    normal = g / np.linalg.norm(block, axis=0)[0]
    off = abs(block[0, 0] / abs(g) * abs(normal) / theory.cosines(problem)[0][0] - 1)
    return Observation(min(_slack_cosines(problem), -off), value=normal)
