"""Ledger 1 and 3: gradient descent, with one learning rate and with one for each block."""

from __future__ import annotations

import numpy as np

from quadsim import theory
from quadsim.claims.adversary import Axis, Matrix, Option, Search
from quadsim.claims.ledger import Draw, Observation, false, proved
from quadsim.claims.sampling import loss_ratios, one_block, random_problem, random_start, two_blocks
from quadsim.engine.closed_form import modes
from quadsim.optimizers import GD, BlockGD
from quadsim.problems.block_quadratic import BlockQuadratic

BLOCKS = (Matrix("first", 2), Matrix("second", 2), Axis("scale", 1e-2, 1e2, log=True))
MIN_BOUND = 1e-6  # smaller bounds are affected by rounding of eigenvalues


def _one_step(h: np.ndarray, e: np.ndarray, lr: float) -> float:
    """Slack below 1a's bound in one step, with lr in units of 1/L."""
    problem = one_block(h)
    lr = float(lr) / problem.lipschitz
    bound, after = theory.rate(problem, GD(lr=lr)), e - lr * (h @ e)
    return 1 - float(after @ h @ after) / float(e @ h @ e) / bound if bound > MIN_BOUND else np.inf


@proved(
    "1a", draws=500, tight=True, search=Search([Matrix("h", 3), Axis("e", -1, 1, 3), Axis("lr", 0.01, 2.5)], _one_step)
)
def gd_rate(draw: Draw) -> Observation:
    """A step of GD multiplies the loss by at most max((1−lr·μ)², (1−lr·L)²); at lr = 2/(μ+L) this is ((κ−1)/(κ+1))²,
    with equality in every step from the span of the two extreme eigenspaces.

    In an eigenbasis the error's coefficients are decoupled: c_i ← (1 − lr·λ_i) c_i. So loss[t+1] = ½Σ λ_i c_i² (1 −
    lr·λ_i)² is at most max_i (1 − lr·λ_i)² times loss[t], and a parabola in λ is largest at an end of [μ, L]. At lr =
    2/(μ+L) both ends give ((κ−1)/(κ+1))² and everything between gives less: equality at a step holds if and only if the
    error has no component outside the two extreme eigenspaces. The same factor holds for |e|² and |g|², whose weights
    are other powers of λ.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    lr = None if draw.rng.uniform() < 0.5 else float(draw.rng.uniform(0.01, 2.4)) / problem.lipschitz
    ratios = loss_ratios(problem, GD(lr=lr), random_start(draw.rng, problem))
    bound = theory.rate(problem, GD(lr=lr))
    slack = _slack_below(bound, ratios)
    met = loss_ratios(problem, GD(), theory.slowest_start(problem, str(draw.rng.choice(list(theory.MEASURES)))))
    return Observation(slack, _apart(theory.rate(problem, GD()), met))


def _slowest(h: np.ndarray, lr: float, sign: int, measure: int) -> float:
    """Slack above 1b's bound for one of the measures, lr in units of 1/L; negative lr included."""
    problem = one_block(h)
    rate = float(lr) / problem.lipschitz * (-1 if sign else 1)
    return _against_lower(problem, rate, list(theory.MEASURES)[measure]).slack if problem.kappa > 1.1 else np.inf


@proved(
    "1b",
    draws=800,
    tight=True,
    search=Search(
        [Matrix("h", 3), Axis("lr", 1e-4, 20, log=True), Option("sign", 2)],
        lambda h, lr, sign: _slowest(h, lr, sign, list(theory.MEASURES).index("loss")),
    ),
)
def no_lr_beats_it(draw: Draw) -> Observation:
    """From e₀ = u_μ/μ + u_L/L, which does not depend on the lr, GD with any constant lr, negative and divergent ones
    included, keeps loss[t+1] ≥ ((κ−1)/(κ+1))² loss[t] for every t; with equality for all t at lr = 2/(μ+L).

    The first gradient is u_μ + u_L. One step with any lr is at best a step of exact line search, for which
    loss[1]/loss[0] = 1 − (gᵀg)²/((gᵀHg)(gᵀH⁻¹g)) = 1 − 4μL/(μ+L)² = ((κ−1)/(κ+1))²: Kantorovich's inequality with
    equality. For a constant lr, loss[t] = Σ a_i q_i^t with q_i ≥ 0, so by Cauchy and Schwarz loss[t]² ≤
    loss[t−1]·loss[t+1]: the ratio of successive losses never decreases, and no later step is better than the first.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    lr = float(draw.rng.choice([-1, 1, 1, 1])) * float(np.exp(draw.rng.uniform(-8, 3))) / problem.lipschitz
    observation = _against_lower(problem, lr, "loss")
    if lr > 0:  # and step by step
        ratios = loss_ratios(problem, GD(lr=lr), theory.slowest_start(problem), 5)
        slack = float((ratios / theory.lower_bound(problem) - 1).min())
        observation = observation._replace(slack=min(observation.slack, slack))
    return observation


@proved(
    "1b-weighted",
    draws=500,
    tight=True,
    search=Search(
        [Matrix("h", 3), Axis("lr", 1e-4, 20, log=True), Option("sign", 2), Option("measure", len(theory.MEASURES))],
        _slowest,
    ),
)
def no_lr_beats_it_weighted(draw: Draw) -> Observation:
    """The same lower bound holds for |e|² and for |g|² from e₀ with coefficients λ^(−½) and λ^(−3/2): so for √loss, |e|
    and |g| the factor is (κ−1)/(κ+1), unsquared.

    For the measure eᵀHᵖe put ẽ = H^((p−1)/2)e: its loss is that measure, and it follows the same recursion. 1b for ẽ
    asks for coefficients 1/λ of ẽ₀, that is λ^(−(p+1)/2) of e₀.
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    lr = float(draw.rng.choice([-1, 1, 1, 1])) * float(np.exp(draw.rng.uniform(-8, 1))) / problem.lipschitz
    return _against_lower(problem, lr, str(draw.rng.choice(["distance", "gradient"])))


def _against_lower(problem: BlockQuadratic, lr: float, measure: str) -> Observation:
    """Ratios of the measure eᵀHᵖe from its slowest start, in closed form at a few steps, for this lr and for the
    best.
    """
    power, bound = theory.MEASURES[measure], theory.lower_bound(problem)
    ends = np.array([problem.mu, problem.lipschitz])
    log_weights = -np.log(ends)[:, None]  # λᵖc² with c = λ^(−(p+1)/2)
    at = np.array([0, 1, 2, 5, 50])

    def ratios(rate: float) -> np.ndarray:
        course = modes.descent(rate, ends)
        here, there = (np.logaddexp.reduce(log_weights + 2 * course.log_sizes(t), axis=0) for t in (at, at + 1))
        return np.exp(there - here)

    start = theory.slowest_start(problem, measure) - problem.minimizer
    image = start
    for _ in range(power):
        image = problem.hvp(image)
    agrees = abs(float(start @ image) / (1 / ends).sum() - 1)  # the start has just these two components
    slack = min(float((ratios(lr) / bound - 1).min()), 1e-6 - agrees)
    return Observation(slack, float(np.abs(ratios(2 / ends.sum()) / bound - 1).max()))


@false("1c", draws=500)
def unsquared(draw: Draw) -> Observation:
    """From some start, GD with any lr has loss[t+1] ≥ (1 − 2/(κ+1)) loss[t]: the lower bound 1b without its square.

    For every problem with κ > 1 and every start, lr = 2/(μ+L) gives a ratio of at most ((κ−1)/(κ+1))² by 1a, which is
    below (κ−1)/(κ+1) = 1 − 2/(κ+1). The unsquared factor is right for √loss, |e| and |g| (1b-weighted).
    """
    problem = random_problem(draw.rng, min_kappa=1.1)
    ratios = loss_ratios(problem, GD(), theory.slowest_start(problem))
    return Observation(float((ratios / (1 - 2 / (problem.kappa + 1)) - 1).min()))


@false("1c-varying", draws=200)
def varying(draw: Draw) -> Observation:
    """The lower bound 1b also holds for learning rates that vary from step to step.

    From 1b's own start, a step with lr = 1/μ removes the component along u_μ and one with lr = 1/L the one along u_L:
    the minimum is reached in two steps.
    """
    problem = random_problem(draw.rng, max_kappa=1e3, min_kappa=1.1)
    e = theory.slowest_start(problem) - problem.minimizer
    first = problem.loss(problem.minimizer + e)
    for lr in (1 / problem.mu, 1 / problem.lipschitz):
        e = e - lr * problem.hvp(e)
    last = problem.loss(problem.minimizer + e)
    return Observation(last / first / theory.lower_bound(problem) ** 2 - 1)


def _one_block_step(first: np.ndarray, second: np.ndarray, scale: float, e: np.ndarray) -> float:
    """Slack below 3's bound in one step of block GD."""
    problem = two_blocks(first, second, scale)
    ends = [(values[0], values[-1]) for values in problem.eigenvalues]
    worst = max(problem.block_kappas)
    bound = ((worst - 1) / (worst + 1)) ** 2
    parts = zip(problem.blocks, problem.split(e), ends, strict=True)
    after = np.concatenate([part - 2 / (low + high) * (block @ part) for block, part, (low, high) in parts])
    return 1 - problem.loss(after) / problem.loss(e) / bound if bound > MIN_BOUND else np.inf


@proved("3", draws=500, tight=True, search=Search([*BLOCKS, Axis("e", -1, 1, 4)], _one_block_step))
def block_gd_rate(draw: Draw) -> Observation:
    """A step of block GD with lr_l = 2/(μ_l+L_l) multiplies the loss by at most max_l ((κ_l−1)/(κ_l+1))²; equality
    holds from the worst block's extreme eigenvectors.

    Blocks are decoupled: each contracts its own share of the loss by 1a's factor for its own κ_l, and a sum of shares
    contracts by the worst of them.
    """
    problem = _problem_with_wide_block(draw)
    worst = int(np.argmax(problem.block_kappas))
    bound = ((problem.block_kappas[worst] - 1) / (problem.block_kappas[worst] + 1)) ** 2
    slack = _slack_below(bound, loss_ratios(problem, BlockGD(), random_start(draw.rng, problem)))
    alone = BlockQuadratic.from_blocks([problem.blocks[worst]])
    parts = problem.split(np.zeros(problem.dim))
    parts[worst] = theory.slowest_start(alone)
    met = loss_ratios(problem, BlockGD(), problem.minimizer + np.concatenate(parts))
    return Observation(slack, _apart(bound, met))


def _other_rates(first: np.ndarray, second: np.ndarray, scale: float, factors: np.ndarray) -> float:
    """Slack above block GD's worst-case factor when its learning rates are multiplied by these factors."""
    problem = two_blocks(first, second, scale)
    best = np.asarray(BlockGD().with_best_lr(problem, np.zeros(problem.dim)).lr)
    bound = theory.rate(problem, BlockGD())
    return theory.rate(problem, BlockGD(lr=tuple(best * factors))) / bound - 1 if bound > MIN_BOUND else np.inf


@proved("3-best", draws=500, tight=True, search=Search([*BLOCKS, Axis("factors", 0.1, 10, 2, log=True)], _other_rates))
def block_gd_is_best(draw: Draw) -> Observation:
    """No other constant learning rates, one for each block, have a smaller worst-case factor than block GD's.

    In the worst block any constant lr meets 1b's start, from which no factor is smaller than ((κ_l−1)/(κ_l+1))².
    """
    problem = _problem_with_wide_block(draw)
    best = BlockGD().with_best_lr(problem, np.zeros(problem.dim)).lr
    others = np.asarray(best) * np.exp(draw.rng.normal(0, float(draw.rng.choice([0.001, 0.1, 1])), len(problem.sizes)))
    bound = theory.rate(problem, BlockGD())
    worst = max(problem.block_kappas)
    return Observation(
        theory.rate(problem, BlockGD(lr=tuple(others))) / bound - 1, abs(bound / theory.best_rate(worst, "gd") - 1)
    )


def _problem_with_wide_block(draw: Draw) -> BlockQuadratic:
    """A problem in which some block has a condition number of at least 1.5."""
    problem = random_problem(draw.rng)
    while max(problem.block_kappas) < 1.5:
        problem = random_problem(draw.rng)
    return problem


def _slack_below(bound: float, ratios: np.ndarray) -> float:
    """Slack below an upper bound, relative to it; bounds near rounding do not count."""
    return float((1 - ratios / max(bound, 1e-15)).min()) if ratios.size and bound > 1e-12 else np.inf


def _apart(bound: float, ratios: np.ndarray) -> float | None:
    """How far the ratios lie from a bound that they should meet."""
    return float(np.abs(ratios / bound - 1).max()) if ratios.size and bound > 1e-3 else None
