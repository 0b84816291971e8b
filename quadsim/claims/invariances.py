"""Ledger 6: invariances of the path of an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from quadsim.claims.ledger import MIN_P_VALUE, Claim, Verdict, exact_result, false, refuted
from quadsim.claims.observations import Draw, Observation, values_of
from quadsim.claims.sampling import EPS, random_problem_and_error, run_compiled
from quadsim.engine.solver import solve
from quadsim.optimizers import GD, OPTIMIZERS, Adam, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problems.bases import haar_basis
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import case

Blocks = Sequence[np.ndarray]
STEPS = 60
FEW_STEPS = 10  # Adam is chaotic near its floor, where it magnifies rounding; induction needs one step only
MIN_DRAWS = 300  # 150 may not distinguish the two laws of 6-fixed


def _p_values(observations: list[Observation]) -> tuple[np.ndarray, np.ndarray]:
    """The Kolmogorov–Smirnov p-value of each lr and step, and the losses (draws, case, lr, step)."""
    from scipy.stats import ks_2samp

    losses = values_of(observations)
    p = [ks_2samp(*losses[:, :, lr, step].T).pvalue for lr in range(2) for step in range(2)]
    return np.array(p), losses


def _same_law(claim: Claim, observations: list[Observation]) -> Verdict:
    p, _ = _p_values(observations)
    numbers = ", ".join(f"{value:.2g}" for value in p)
    evidence = f"two-sample KS, {len(observations):,} v {len(observations):,}: p = {numbers}"
    return claim.law_verdict(list(p), evidence, enough=len(observations) >= MIN_DRAWS)


def _another_law(claim: Claim, observations: list[Observation]) -> Verdict:
    p, losses = _p_values(observations)
    last = losses[:, :, 1, 1]  # lr = 1/L, step 300
    evidence = (
        f"at lr = 1/L and step 300 KS p = {p[3]:.1g}; means {last[:, 0].mean():.3f} and {last[:, 1].mean():.3f}, "
        f"standard deviations {last[:, 0].std():.3f} and {last[:, 1].std():.3f} (margin: p − {MIN_P_VALUE:.0e})"
    )
    margin = float(p[3]) - MIN_P_VALUE
    return claim.verdict(margin, evidence, confirmed=margin < 0, enough=len(observations) >= MIN_DRAWS)


def _refuted_with_names(claim: Claim, observations: list[Observation]) -> Verdict:
    """Refuted, with the names of the optimizers that are counterexamples."""
    names = list(dict.fromkeys(one.value for one in observations if one.slack < 0))
    verdict = refuted(claim, observations)
    return verdict._replace(evidence=verdict.evidence + (f": {', '.join(names)}" if names else ""))


def _deviates(claim: Claim, observations: list[Observation]) -> Verdict:
    off = -np.array([one.slack for one in observations])
    evidence = (
        f"the path rotated back deviates by {np.median(off):.2f} of its length (median), at least {off.min():.2g}"
    )
    # a single deviation could be magnified rounding: nearly every rotation must deviate
    return claim.verdict(-off.max(), evidence, confirmed=bool(np.mean(off > 1e-3) > 0.95))


# rounding: entries of RHRᵀ have errors of eps·L, which grow to 60 eps in 60 steps, times a transient of √κ ≤ 100
@exact_result("6", draws=300, relation="equality", rounding=1e-10)
def rotations(draw: Draw) -> Observation:
    """GD, heavy ball and Nesterov's method commute with rotations, within blocks or across all of them: H → RHRᵀ and e₀
    → Re₀ rotate the whole path by R and leave all losses unchanged.

    Each step is a linear combination of earlier errors and of H times these, with coefficients that do not depend on
    the coordinate system. If e_s is replaced by Re_s and H by RHRᵀ, then RHRᵀRe_s = R(He_s) for orthogonal R, so the
    next error is R times the original one, and by induction all errors are. The loss ½(Re)ᵀRHRᵀ(Re) = ½eᵀHe is the
    same.
    """
    rng = draw.rng
    problem, e = random_problem_and_error(rng, max_kappa=1e4)
    lr, momentum = rng.uniform(0.01, 1) / problem.lipschitz, rng.uniform(0, 0.99)
    optimizer = [GD(lr=lr), HeavyBall(lr=lr, momentum=momentum), Nesterov(lr=lr, momentum=momentum)][rng.integers(3)]
    blocks = list(problem.blocks) if rng.uniform() < 0.5 else [problem.hessian()]
    rotations = [haar_basis(len(block), rng) for block in blocks]
    w, losses = _path(blocks, e, optimizer)
    rotated, rotated_losses = _rotated_path(rotations, blocks, e, optimizer)
    off = np.linalg.norm(rotated - w) / max(np.linalg.norm(e), np.linalg.norm(w))
    return Observation(-max(off, np.abs(rotated_losses - losses).max() / losses.max()))


@exact_result("6-law", draws=600, judge=_same_law, relation="sample")
def one_law(draw: Draw) -> Observation:
    """Under GD from an isotropic start, Case 3 and Case 4 have the same law of the loss at every step: it depends on
    the eigenvalues alone, not on how they are partitioned into blocks.

    The loss is ½Σ λ_i c_i² (1 − lr·λ_i)^(2t), with c = Qᵀe₀ and Q the orthogonal matrix of all eigenvectors. If e₀ ~
    N(0, I) then c ~ N(0, I) whatever Q is, block-diagonal or not, fixed or independent of e₀. So the law of the loss
    depends on the eigenvalues alone, and these are the same nine numbers in both cases.

    Checked by the two-sample Kolmogorov–Smirnov test on the losses of equally many draws of each case, with independent
    bases and starts, at steps 30 and 300, for lr = 2/(μ+L) and 1/L.
    """
    return Observation(value=_losses_of_both(draw, fixed=False))


@false("6-fixed", draws=500, judge=_another_law)
def one_law_of_fixed_starts(draw: Draw) -> Observation:
    """Under GD, Case 3 and Case 4 have the same law of the loss also from the fixed start e₀ = 1, when only the bases
    are random.

    The Haar basis of a block distributes a fixed start over its eigenvectors: each block has 3 of |e₀|² = 9, whatever
    its basis is. In Case 3 the block {1, 2, 3} thus has 3 of it, distributed over similar eigenvalues, and the loss of
    late steps varies little. In Case 4 the eigenvalues 1, 2 and 3 are in different blocks, and each has a share between
    0 and 3. The means agree, since E c_i² = 1 in both cases; the spreads do not: at lr = 1/L and step 300 the standard
    deviations are about 0.47 and 1.25.
    """
    return Observation(value=_losses_of_both(draw, fixed=True))


# rounding: sums in another order differ by some eps, magnified along the path
@exact_result("6-adam", draws=400, relation="equality", rounding=1e-12)
def adam_symmetries(draw: Draw) -> Observation:
    """Adam with ε = 0, for any β1 and β2, frozen or not, commutes with permutations and sign flips of coordinates, is
    invariant under scaling of a block (H_l → c_l H_l, c_l > 0), and scales with the start and the lr together.

    Coordinate i moves by lr·m_i/√v_i, where m_i is a weighted sum of the gradients g_i so far and v_i one of their
    squares. A permutation of coordinates permutes the gradients. A sign flip of e_i flips g_i and m_i, and does not
    change v_i. A factor c_l on H_l multiplies g, m and √v of that block by c_l, and the quotient is the same. And e →
    ce, lr → c·lr multiplies g, m and √v by c: the quotient is the same, and the step is c times as long. So every loss
    is multiplied by c², and every floor of the loss is proportional to lr².

    All four are applied together, and the path after up to ten steps is compared with the image of the original path.
    """
    rng = draw.rng
    problem, e = random_problem_and_error(rng, max_kappa=1e3)
    optimizer = _random_adam(rng, problem, e)
    scale = np.exp(rng.uniform(-3, 3))
    orders = [rng.permutation(size) for size in problem.sizes]
    signs = [rng.choice([-1.0, 1.0], size) for size in problem.sizes]
    mapped, image = _symmetry(problem, orders, signs, [np.exp(rng.uniform(-5, 5)) for _ in signs], scale)
    steps = int(rng.integers(1, FEW_STEPS + 1))
    w, _ = _path(problem.blocks, e, optimizer, steps)
    mapped_w, _ = _path(mapped, image(e), _with_lr(optimizer, scale), steps)
    off = np.abs(mapped_w - image(w)).max() / (scale * np.abs(e).max())
    perturbation = 8 * EPS  # of the order of rounding; its growth along the path is allowed for
    perturbed, _ = _path(problem.blocks, e * (1 + perturbation * rng.choice([-1.0, 1.0], e.size)), optimizer, steps)
    growth = np.abs(perturbed - w).max() / (perturbation * np.abs(e).max())
    return Observation(-off / max(1.0, growth))


@false("6-adam-rotation", draws=200, judge=_deviates)
def adam_and_rotations(draw: Draw) -> Observation:
    """Adam with ε = 0, frozen or not, commutes with rotations of a block.

    Adam divides each coordinate by the size of the gradients of that coordinate, and a rotation mixes coordinates. One
    step shows it: with β1 = β2 = 0 it is −lr·sign(g), always along a diagonal of the coordinate axes, whatever the
    frame is. The path of ten steps in the rotated frame, rotated back, is compared with the original path, relative to
    the larger distance covered. (An earlier figure was a deviation of at least 0.12, over 60 steps.)
    """
    rng = draw.rng
    problem, e = _two_random_blocks(rng, rng.integers(2, 6, 2))
    optimizer = _random_adam(rng, problem, e)
    rotations = [haar_basis(problem.sizes[0], rng), np.eye(problem.sizes[1])]
    w, _ = _path(problem.blocks, e, optimizer, FEW_STEPS)
    rotated, _ = _rotated_path(rotations, problem.blocks, e, optimizer, FEW_STEPS)
    length = max(np.linalg.norm(w - e), np.linalg.norm(rotated - e))
    return Observation(-float(np.linalg.norm(rotated - w) / length))


@exact_result("6-bits", draws=300, rounding=0.0, relation="equality")
def bits(draw: Draw) -> Observation:
    """Sign flips of coordinates flip the float64 path bit for bit (minimizer 0, given settings) for each built-in
    optimizer whose rule is coordinatewise, or acts on blocks and does not depend on the order of coordinates. For Adam
    with ε = 0, scaling blocks by powers of two changes no bit of the path, and scaling start and lr together by a power
    of two scales it exactly.

    Rounding to nearest treats x and −x alike, so a sum or product of flipped numbers is the flipped sum or product, to
    the bit. A coordinatewise rule (scope "coordinate") is an odd function of the gradients of its coordinate. A rule
    for blocks that does not depend on the order of coordinates computes sums of products of a coordinate with itself,
    which flips do not change. A rule that depends on the positions of coordinates, as entries of a matrix, multiplies
    different coordinates and is not covered (6-bits-all). Multiplication by a power of two changes only exponents, and
    rounding commutes with it as long as nothing leaves the range of float64: √(4^k v) is 2^k √v, and the quotient of
    gradients and roots does not change. Settings that the optimizer computes from the problem are not covered.

    Draws cycle through all optimizers. Dependence on the order is measured, by three steps with the coordinates of each
    block permuted.
    """
    rng = draw.rng
    problem, e = random_problem_and_error(rng)
    optimizer = _at_moderate_lr(draw, problem, e)
    covered = optimizer.scope == "coordinate" or _ignores_order(optimizer, rng, problem, e)
    if covered and _flip(rng, problem, e, optimizer):
        return Observation(-1.0)
    powers, scale = rng.integers(-20, 21, len(problem.sizes)), 2.0 ** int(rng.integers(-8, 9))
    return Observation(-1.0 if _flip(rng, problem, e, _random_adam(rng, problem, e), powers, scale) else 0.0)


@false("6-bits-all", draws=3 * len(OPTIMIZERS), judge=_refuted_with_names)
def bits_of_all(draw: Draw) -> Observation:
    """Sign flips of coordinates flip the path accordingly for every built-in optimizer.

    Muon treats the coordinates of a block as a matrix and moves its singular values towards 1. A flip of one coordinate
    changes the sign of one entry, and thereby the singular values: [[1, 1], [1, 1]] has a zero singular value, [[1, 1],
    [1, −1]] has none. For a block of one row Muon only normalises the direction, and flips are exact. An earlier
    statement included all optimizers.
    """
    problem, e = _two_random_blocks(draw.rng, (4, 4))
    optimizer = _at_moderate_lr(draw, problem, e)
    return Observation(-_flip(draw.rng, problem, e, optimizer), value=optimizer.name)


def _two_random_blocks(rng: np.random.Generator, sizes: Any) -> tuple[BlockQuadratic, np.ndarray]:
    """Two blocks with eigenvalues from 1 to 100, and a Gaussian error."""
    spectra = [np.exp(rng.uniform(0, np.log(100), size)) for size in sizes]
    problem = BlockQuadratic.from_spectra(spectra, seed=int(rng.integers(2**31)))
    return problem, rng.standard_normal(problem.dim)


def _symmetry(
    problem: BlockQuadratic, orders: Blocks, signs: Blocks, block_scales: Sequence[float], scale: float
) -> tuple[Blocks, Callable[[np.ndarray], np.ndarray]]:
    """Blocks that are permuted, flipped and scaled, and the image of an error, which `scale` multiplies."""
    maps = zip(problem.blocks, orders, signs, block_scales, strict=True)
    blocks = [c * (np.outer(sign, sign) * block)[np.ix_(order, order)] for block, order, sign, c in maps]

    def image(vector: np.ndarray) -> np.ndarray:
        parts = zip(problem.split(vector), signs, orders, strict=True)
        return scale * np.concatenate([(sign * part)[order] for part, sign, order in parts])

    return blocks, image


def _flip(
    rng: np.random.Generator,
    problem: BlockQuadratic,
    e: np.ndarray,
    optimizer: Optimizer,
    powers: Any = 0,
    scale: float = 1.0,
) -> float:
    """Distance of the path of a flipped problem, scaled by powers of two, from the flipped path; 0 if bits agree."""
    signs, steps = problem.split(rng.choice([-1.0, 1.0], problem.dim)), int(rng.integers(1, 2 * STEPS))
    powers = np.broadcast_to(powers, len(problem.sizes))
    flipped, image = _symmetry(problem, [np.arange(n) for n in problem.sizes], signs, 2.0**powers, scale)
    w, losses = _path(problem.blocks, e, optimizer, steps)
    flipped_w, flipped_losses = _path(flipped, image(e), _with_lr(optimizer, scale), steps)
    expected = image(w)
    same_losses = powers.any() or np.array_equal(flipped_losses, scale**2 * losses)
    if same_losses and np.array_equal(flipped_w, expected):
        return 0.0
    return max(np.abs(flipped_w - expected).max() / (scale * np.abs(e).max()), np.finfo(float).tiny)


def _ignores_order(optimizer: Optimizer, rng: np.random.Generator, problem: BlockQuadratic, e: np.ndarray) -> bool:
    """Whether permuting the coordinates of each block permutes the path, over three steps and up to rounding."""
    orders, signs = [rng.permutation(size) for size in problem.sizes], [np.ones(size) for size in problem.sizes]
    blocks, permuted = _symmetry(problem, orders, signs, [1.0] * len(orders), 1.0)
    w, permuted_w = _path(problem.blocks, e, optimizer, 3)[0], _path(blocks, permuted(e), optimizer, 3)[0]
    return bool(np.abs(permuted_w - permuted(w)).max() <= 1e-6 * np.abs(w - e).max())


def _at_moderate_lr(draw: Draw, problem: BlockQuadratic, e: np.ndarray) -> Optimizer:
    """One optimizer after another, at default settings and a moderate lr: relative to 1/L if steps are homogeneous."""
    kind = list(OPTIMIZERS.values())[draw.number % len(OPTIMIZERS)]
    unset = {item.name: 0.9 for item in fields(kind) if item.default is None and item.name != "lr"}
    lr = draw.rng.uniform(0.01, 0.5) / problem.lipschitz if kind.homogeneous else _small_lr(draw.rng, e)
    return kind(lr=lr, **unset)


def _small_lr(rng: np.random.Generator, e: np.ndarray) -> float:
    """A small part of the distance to the minimizer in a coordinate."""
    return float(np.median(np.abs(e)) * 10 ** rng.uniform(-3, -1.5))


def _path(blocks: Blocks, e: np.ndarray, optimizer: Optimizer, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """The error after some steps, and the losses of all steps."""
    run = run_compiled(BlockQuadratic.from_blocks(blocks), optimizer, e, steps)
    return run.w, run.loss


def _rotated_path(
    rotations: Blocks, blocks: Blocks, e: np.ndarray, optimizer: Optimizer, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray]:
    """The path of the problem with rotated blocks and start: its last error rotated back, and its losses."""

    def rotate(rotations: Blocks, vector: np.ndarray) -> np.ndarray:
        parts = np.split(vector, np.cumsum([len(block) for block in blocks])[:-1])
        return np.concatenate([rotation @ part for rotation, part in zip(rotations, parts, strict=True)])

    rotated = [rotation @ block @ rotation.T for rotation, block in zip(rotations, blocks, strict=True)]
    w, losses = _path(rotated, rotate(rotations, e), optimizer, steps)
    return rotate([rotation.T for rotation in rotations], w), losses


def _random_adam(rng: np.random.Generator, problem: BlockQuadratic, e: np.ndarray) -> Adam | FrozenAdam:
    """Adam with ε = 0 at random settings, with an lr that is a small part of the distance to the minimizer."""
    beta1 = float(rng.choice([0.0, 0.9, rng.uniform()]))
    if rng.uniform() < 0.25:
        best: Any = FrozenAdam().with_best_lr(problem, e)
        return FrozenAdam(lr=best.lr * rng.uniform(0.1, 1), beta1=beta1)
    return Adam(
        lr=_small_lr(rng, e),
        beta1=beta1,
        beta2=float(rng.choice([0.0, 0.9, 0.999, rng.uniform()])),
        eps=0.0,
        bias_correction=bool(rng.integers(2)),
        init=str(rng.choice(["zero", "gradient"])),
    )


def _with_lr(optimizer: Any, scale: float) -> Any:
    """The optimizer with its lr multiplied by a scale."""
    return replace(optimizer, lr=scale * optimizer.lr)


def _losses_of_both(draw: Draw, fixed: bool) -> np.ndarray:
    """Losses of Cases 3 and 4: (case, [lr = 2/(μ+L), 1/L], [step 30, 300])."""
    losses = []
    for number in (3, 4):
        problem = case(number, seed=int(draw.rng.integers(2**31)), minimizer="zero")
        e = np.ones(9) if fixed else draw.rng.standard_normal(9)
        both = [GD(), GD(lr=1 / problem.lipschitz)]
        runs = solve(problem, both, w0=e, tol=0, max_steps=300, record=30, threads=1, engine="compiled")
        losses.append([run.loss[[1, 10]] for run in runs])
    return np.array(losses)
