"""Ledger 1 and 3: gradient descent with one learning rate, and with one for each block."""

from __future__ import annotations

import numpy as np

from quadsim import theory
from quadsim.claims.adversary import BLOCK, ERROR, Axis, Matrix, Option, Search
from quadsim.claims.ledger import false, proved
from quadsim.claims.observations import Draw, Observation
from quadsim.claims.sampling import loss_ratios, one_block, random_problem, random_start, two_blocks
from quadsim.engine.closed_form import linear_methods
from quadsim.optimizers import GD, BlockGD
from quadsim.problems.block_quadratic import BlockQuadratic

TWO_BLOCKS = (Matrix("first", 2), Matrix("second", 2), Axis("scale", 1e-2, 1e2, log=True))
MIN_BOUND = 1e-6  # smaller bounds are affected by the rounding of eigenvalues


def _one_step(h: np.ndarray, e: np.ndarray, lr: float) -> float:
    """Slack of 1a in one step, with lr in units of 1/L."""
    problem = one_block(h)
    lr = lr / problem.lipschitz
    bound, after = theory.rate(problem, GD(lr=lr)), e - lr * (h @ e)
    return 1 - (after @ h @ after) / (e @ h @ e) / bound if bound > MIN_BOUND else np.inf


@proved("1a", draws=500, tight=True, search=Search([BLOCK, ERROR, Axis("lr", 0.01, 2.5)], _one_step))
def gd_rate(draw: Draw) -> Observation:
    """A step of GD multiplies the loss by at most max((1−lr·μ)², (1−lr·L)²); at lr = 2/(μ+L) this is ((κ−1)/(κ+1))²,
    with equality in every step from the span of the two extreme eigenspaces.

    In an eigenbasis the coefficients of the error are decoupled: c_i ← (1 − lr·λ_i) c_i. So loss[t+1] = ½Σ λ_i c_i² (1
    − lr·λ_i)² is at most max_i (1 − lr·λ_i)² times loss[t], and a convex parabola in λ attains its maximum at an end of
    [μ, L]. At lr = 2/(μ+L) both ends give ((κ−1)/(κ+1))² and everything between them gives less, so equality holds if
    and only if the error has no component outside the two extreme eigenspaces. The same factor holds for |e|² and |g|²,
    whose weights are other powers of λ.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    gd = GD(lr=None if draw.rng.uniform() < 0.5 else draw.rng.uniform(0.01, 2.4) / problem.lipschitz)
    slack = _slack_below(theory.rate(problem, gd), loss_ratios(problem, gd, random_start(draw.rng, problem)))
    attained = loss_ratios(problem, GD(), theory.slowest_start(problem, str(draw.rng.choice(list(theory.MEASURES)))))
    return Observation(slack, _deviation(theory.rate(problem, GD()), attained))


def _slowest(h: np.ndarray, lr: float, sign: int, measure: int = list(theory.MEASURES).index("loss")) -> float:
    """Slack of 1b for one of the measures, with lr in units of 1/L, and negative if `sign` is 1."""
    problem = one_block(h)
    signed = lr / problem.lipschitz * (-1 if sign else 1)
    return _against_lower(problem, signed, list(theory.MEASURES)[measure]).slack if problem.kappa > 1.1 else np.inf


SIGNED_LR = (Axis("lr", 1e-4, 20, log=True), Option("sign", 2))


@proved("1b", draws=800, tight=True, search=Search([BLOCK, *SIGNED_LR], _slowest))
def no_lr_beats_it(draw: Draw) -> Observation:
    """From e₀ = u_μ/μ + u_L/L, which does not depend on the lr, GD with any constant lr, negative and divergent ones
    included, has loss[t+1] ≥ ((κ−1)/(κ+1))² loss[t] for every t, with equality for all t at lr = 2/(μ+L).

    The first gradient is u_μ + u_L. One step with any lr is at best a step of exact line search, for which
    loss[1]/loss[0] = 1 − (gᵀg)²/((gᵀHg)(gᵀH⁻¹g)) = 1 − 4μL/(μ+L)² = ((κ−1)/(κ+1))²: Kantorovich's inequality with
    equality. For a constant lr, loss[t] = Σ a_i q_i^t with q_i ≥ 0, so by Cauchy and Schwarz loss[t]² ≤
    loss[t−1]·loss[t+1]: the ratio of successive losses never decreases, and no later step is better than the first.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    lr = float(draw.rng.choice([-1, 1, 1, 1]) * np.exp(draw.rng.uniform(-8, 3))) / problem.lipschitz
    observation = _against_lower(problem, lr, "loss")
    if lr > 0:  # and in a run
        ratios = loss_ratios(problem, GD(lr=lr), theory.slowest_start(problem), 5)
        slack = (ratios / theory.lower_bound(problem) - 1).min()
        observation = observation._replace(slack=min(observation.slack, slack))
    return observation


MEASURE = Option("measure", len(theory.MEASURES))


@proved("1b-weighted", draws=500, tight=True, search=Search([BLOCK, *SIGNED_LR, MEASURE], _slowest))
def no_lr_beats_it_weighted(draw: Draw) -> Observation:
    """The lower bound 1b also holds for |e|² and for |g|², from e₀ with coefficients λ^(−½) and λ^(−3/2) respectively;
    so for √loss, |e| and |g| the factor is (κ−1)/(κ+1), without the square.

    For the measure eᵀHᵖe put ẽ = H^((p−1)/2)e: the loss of ẽ is that measure, and ẽ follows the same recursion. 1b for
    ẽ requires coefficients 1/λ of ẽ₀, that is λ^(−(p+1)/2) of e₀.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    lr = float(draw.rng.choice([-1, 1, 1, 1]) * np.exp(draw.rng.uniform(-8, 1))) / problem.lipschitz
    return _against_lower(problem, lr, str(draw.rng.choice(["distance", "gradient"])))


def _against_lower(problem: BlockQuadratic, lr: float, measure: str) -> Observation:
    """Ratios of the measure eᵀHᵖe from its slowest start, in closed form, for this lr; gap at the best lr."""
    bound, ends = theory.lower_bound(problem), np.array([problem.mu, problem.lipschitz])
    log_weights = -np.log(ends)[:, None]  # λᵖc² with c = λ^(−(p+1)/2)
    at = np.array([0, 1, 2, 5, 50])

    def ratios(lr: float) -> np.ndarray:
        modes_of_ends = linear_methods.descent(lr, ends)
        here, after = (np.logaddexp.reduce(log_weights + 2 * modes_of_ends.log_sizes(t), axis=0) for t in (at, at + 1))
        return np.exp(after - here)

    image = start = theory.slowest_start(problem, measure) - problem.minimizer
    for _ in range(theory.MEASURES[measure]):
        image = problem.hvp(image)
    off = abs((start @ image) / (1 / ends).sum() - 1)  # the start has no other components
    gap = np.abs(ratios(2 / ends.sum()) / bound - 1).max()
    return Observation(min((ratios(lr) / bound - 1).min(), 1e-6 - off), gap)


@false("1c", draws=500)
def unsquared(draw: Draw) -> Observation:
    """From some start, GD with any lr has loss[t+1] ≥ (1 − 2/(κ+1)) loss[t]: the lower bound 1b without the square.

    For every problem with κ > 1 and every start, lr = 2/(μ+L) gives a ratio of at most ((κ−1)/(κ+1))² by 1a, which is
    below (κ−1)/(κ+1) = 1 − 2/(κ+1). The factor without the square is correct for √loss, |e| and |g| (1b-weighted).
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    ratios = loss_ratios(problem, GD(), theory.slowest_start(problem))
    return Observation((ratios / (1 - 2 / (problem.kappa + 1)) - 1).min())


@false("1c-varying", draws=200)
def varying(draw: Draw) -> Observation:
    """The lower bound 1b also holds for learning rates that vary from step to step.

    From the start of 1b, a step with lr = 1/μ removes the component along u_μ and a step with lr = 1/L the one along
    u_L, so two steps reach the minimum.
    """
    problem = random_problem(draw.rng, max_kappa=1e3, min_kappa=1.1)
    e = theory.slowest_start(problem) - problem.minimizer
    first = problem.loss(problem.minimizer + e)
    for lr in (1 / problem.mu, 1 / problem.lipschitz):
        e = e - lr * problem.hvp(e)
    return Observation(problem.loss(problem.minimizer + e) / first / theory.lower_bound(problem) ** 2 - 1)


def _one_block_step(first: np.ndarray, second: np.ndarray, scale: float, e: np.ndarray) -> float:
    """Slack of 3 in one step of block GD."""
    problem = two_blocks(first, second, scale)
    bound = _block_bound(problem)
    parts = zip(problem.blocks, problem.split(e), problem.eigenvalues, strict=True)
    after = np.concatenate([part - 2 / (values[0] + values[-1]) * (block @ part) for block, part, values in parts])
    return 1 - problem.loss(after) / problem.loss(e) / bound if bound > MIN_BOUND else np.inf


@proved("3", draws=500, tight=True, search=Search([*TWO_BLOCKS, Axis("e", -1, 1, 4)], _one_block_step))
def block_gd_rate(draw: Draw) -> Observation:
    """A step of block GD with lr_l = 2/(μ_l+L_l) multiplies the loss by at most max_l ((κ_l−1)/(κ_l+1))²; equality
    holds from the worst block's extreme eigenvectors.

    Blocks are decoupled: the loss of each block contracts by the factor of 1a for its κ_l, and their sum by at most the
    largest of these factors.
    """
    problem = _problem_with_wide_block(draw)
    worst, bound = int(np.argmax(problem.block_kappas)), _block_bound(problem)
    slack = _slack_below(bound, loss_ratios(problem, BlockGD(), random_start(draw.rng, problem)))
    parts = problem.split(np.zeros(problem.dim))
    parts[worst] = theory.slowest_start(one_block(problem.blocks[worst]))
    attained = loss_ratios(problem, BlockGD(), problem.minimizer + np.concatenate(parts))
    return Observation(slack, _deviation(bound, attained))


def _block_bound(problem: BlockQuadratic) -> float:
    """max_l ((κ_l−1)/(κ_l+1))²."""
    worst = max(problem.block_kappas)
    return ((worst - 1) / (worst + 1)) ** 2


def _other_lr(problem: BlockQuadratic, factors: np.ndarray) -> float:
    """Slack of 3-best with each learning rate multiplied by a factor."""
    bound, best = theory.rate(problem, BlockGD()), BlockGD().with_best_lr(problem, np.zeros(problem.dim))
    other = BlockGD(lr=tuple(np.asarray(best.lr) * factors))
    return theory.rate(problem, other) / bound - 1 if bound > MIN_BOUND else np.inf


SCALED_LR = Search(
    [*TWO_BLOCKS, Axis("factors", 0.1, 10, 2, log=True)],
    lambda factors, **blocks: _other_lr(two_blocks(**blocks), factors),
)


@proved("3-best", draws=500, tight=True, search=SCALED_LR)
def block_gd_is_best(draw: Draw) -> Observation:
    """No other constant learning rates, one for each block, have a smaller worst-case factor than those of block GD.

    From the start of 1b in the worst block, no constant lr has a smaller factor than ((κ_l−1)/(κ_l+1))².
    """
    problem = _problem_with_wide_block(draw)
    factors = np.exp(draw.rng.normal(0, draw.rng.choice([0.001, 0.1, 1]), len(problem.sizes)))
    bound, best = theory.rate(problem, BlockGD()), theory.best_rate(max(problem.block_kappas), "gd")
    return Observation(_other_lr(problem, factors), abs(bound / best - 1))


def _problem_with_wide_block(draw: Draw) -> BlockQuadratic:
    """A random problem with a block of condition number at least 1.5."""
    problem = random_problem(draw.rng)
    while max(problem.block_kappas) < 1.5:
        problem = random_problem(draw.rng)
    return problem


def _slack_below(bound: float, ratios: np.ndarray) -> float:
    """Slack of ratios below an upper bound, relative to it; infinite if the bound is near rounding."""
    return (1 - ratios / bound).min() if ratios.size and bound > 1e-12 else np.inf


def _deviation(bound: float, ratios: np.ndarray) -> float | None:
    """The largest relative deviation of ratios from a bound that they attain."""
    return np.abs(ratios / bound - 1).max() if ratios.size and bound > 1e-3 else None
