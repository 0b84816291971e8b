"""Ledger 6: invariances of an optimizer's path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from quadsim.claims.ledger import (
    Claim,
    Draw,
    Observation,
    Verdict,
    exact_result,
    false,
    refuted,
)
from quadsim.claims.sampling import random_problem, random_start
from quadsim.engine.solver import solve
from quadsim.optimizers import GD, OPTIMIZERS, Adam, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problems.bases import haar_basis
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import case

STEPS = 60
FEW_STEPS = 10  # Adam is chaotic near its floor, and there magnifies rounding; induction needs one step only
UNLIKELY = 1e-6  # a p-value below it: once in a million seeds, a true law is called violated
MIN_DRAWS = 300  # 150 may not distinguish two samples that differ as much as those of 6-fixed


# entries of RHRᵀ are off by eps·L: after 60 steps by 60 eps, times a transient of √κ = 100 at most
@exact_result("6", draws=300, relation="equality", rounding=1e-10)
def rotations(draw: Draw) -> Observation:
    """GD, heavy ball and Nesterov's method commute with rotations, inside the blocks or across all of them: H → RHRᵀ
    and e₀ → Re₀ rotate the whole path by R, so that losses are unchanged.

    Each step is a linear combination of earlier errors and of H times them, with coefficients that do not depend on the
    axes. If e_s is replaced by Re_s and H by RHRᵀ, then RHRᵀRe_s = R(He_s) for orthogonal R, so the new error is R
    times the old one, and by induction all are. The loss ½(Re)ᵀRHRᵀ(Re) = ½eᵀHe is the same.
    """
    rng = draw.rng
    problem = random_problem(rng, max_kappa=1e4)
    e = random_start(rng, problem) - problem.minimizer
    lr = float(rng.uniform(0.01, 1)) / problem.lipschitz
    momentum = float(rng.uniform(0, 0.99))
    optimizer = [GD(lr=lr), HeavyBall(lr=lr, momentum=momentum), Nesterov(lr=lr, momentum=momentum)][rng.integers(3)]
    blocks = list(problem.blocks) if rng.uniform() < 0.5 else [problem.hessian()]
    turns = [haar_basis(len(block), rng) for block in blocks]
    there, losses_there = _path(
        [turn @ block @ turn.T for turn, block in zip(turns, blocks, strict=True)], _turned(turns, e), optimizer
    )
    here, losses = _path(blocks, e, optimizer)
    back = _turned([turn.T for turn in turns], there)
    apart = np.linalg.norm(back - here) / max(np.linalg.norm(e), np.linalg.norm(here))
    return Observation(-max(float(apart), float(np.abs(losses_there - losses).max() / losses.max())))


@exact_result("6-law", draws=600, judge=lambda claim, observations: _same_law(claim, observations), relation="sample")
def one_law(draw: Draw) -> Observation:
    """Under GD from an isotropic start, Case 3 and Case 4 have the same law of the loss at every step: it depends on
    the eigenvalues alone, not on how they are partitioned into blocks.

    The loss is ½Σ λ_i c_i² (1 − lr·λ_i)^(2t), with c = Qᵀe₀ and Q the orthogonal matrix of all eigenvectors. If e₀ ~
    N(0, I) then c ~ N(0, I) whatever Q is, block-diagonal or not, fixed or independent of e₀: so the law of the loss is
    one of the eigenvalues alone, and these are the same nine numbers in both cases.

    Checked as a law: losses of as many draws of each case, with bases and starts of their own, at steps 30 and 300, for
    lr = 2/(μ+L) and 1/L, by the two-sample test of Kolmogorov and Smirnov.
    """
    return Observation(value=_losses_of_both(draw, fixed=False))


@false("6-fixed", draws=500, judge=lambda claim, observations: _another_law(claim, observations))
def one_law_of_fixed_starts(draw: Draw) -> Observation:
    """Under GD, Case 3 and Case 4 have the same law of the loss also from the fixed start e₀ = 1, when only the bases
    are drawn.

    A fixed start is spread over a block's eigenvectors by the block's own Haar basis: of |e₀|² = 9 each block keeps its
    share of 3, however the basis falls. In Case 3 the block {1, 2, 3} thus holds 3 of it, spread over similar
    eigenvalues, and the loss of the late steps varies little. In Case 4 the eigenvalues 1, 2 and 3 are in different
    blocks, and each has its own share between 0 and 3. Means agree, since E c_i² = 1 in both; spreads do not: at lr =
    1/L and step 300 the standard deviations are about 0.47 and 1.25.
    """
    return Observation(value=_losses_of_both(draw, fixed=True))


# sums in another order are off by some eps, times what the path makes of such a nudge
@exact_result("6-adam", draws=400, relation="equality", rounding=1e-12)
def adam_symmetries(draw: Draw) -> Observation:
    """Adam with ε = 0, for any β1 and β2, frozen or not, commutes with permutations and sign flips of coordinates, is
    invariant to the scale of a block (H_l → c_l H_l, c_l > 0), and scales with the start and the lr together.

    Coordinate i moves by lr·m_i/√v_i, where m_i is a weighted sum of the gradients g_i so far and v_i one of their
    squares. Relabelling coordinates relabels gradients. A flip of e_i's sign flips g_i and m_i, and leaves v_i. A
    factor c_l on H_l multiplies g, m and √v of that block by c_l, and the quotient is the same. And e → ce, lr → c·lr
    multiplies g, m and √v by c: the quotient is the same, the step c times as long. So every loss is c² times what it
    was, and every floor of the loss proportional to lr².

    All four are applied at once, and the path after up to ten steps compared with the first one, mapped likewise.
    """
    rng = draw.rng
    problem = random_problem(rng, max_kappa=1e3)
    e = random_start(rng, problem) - problem.minimizer
    optimizer = _random_adam(rng, problem, e)
    scale = float(np.exp(rng.uniform(-3, 3)))
    orders = [rng.permutation(size) for size in problem.sizes]
    signs = [rng.choice([-1.0, 1.0], size) for size in problem.sizes]
    mapped = [
        float(np.exp(rng.uniform(-5, 5))) * (np.outer(sign, sign) * block)[np.ix_(order, order)]
        for block, sign, order in zip(problem.blocks, signs, orders, strict=True)
    ]

    def image(vector: np.ndarray) -> np.ndarray:
        parts = zip(problem.split(vector), signs, orders, strict=True)
        return scale * np.concatenate([(sign * part)[order] for part, sign, order in parts])

    steps = int(rng.integers(1, FEW_STEPS + 1))
    here, _ = _path(problem.blocks, e, optimizer, steps)
    there, _ = _path(mapped, image(e), _with_lr(optimizer, scale), steps)
    apart = np.abs(there - image(here)).max() / (scale * np.abs(e).max())
    nudge = 8 * np.finfo(float).eps  # what rounding may do to the start, and what the path makes of it
    nudged, _ = _path(problem.blocks, e * (1 + nudge * rng.choice([-1.0, 1.0], e.size)), optimizer, steps)
    magnified = np.abs(nudged - here).max() / (nudge * np.abs(e).max())
    return Observation(-float(apart / max(1.0, magnified)))


@false("6-adam-rotation", draws=200, judge=lambda claim, observations: _deviates(claim, observations))
def adam_and_rotations(draw: Draw) -> Observation:
    """Adam with ε = 0, frozen or not, commutes with rotations of a block.

    Adam divides each coordinate by a size of that coordinate's own gradients, and a rotation mixes coordinates. One
    step shows it: with β1 = β2 = 0 it is −lr·sign(g), always along a diagonal of the axes, in whatever frame they are.
    The path of ten steps, turned back, is compared with the path in the first frame, relative to how far they went. (An
    earlier figure was a deviation of at least 0.12, over 60 steps.)
    """
    rng = draw.rng
    sizes = rng.integers(2, 6, 2)
    problem = BlockQuadratic.from_spectra(
        [np.exp(rng.uniform(0, np.log(100), size)) for size in sizes], seed=int(rng.integers(2**31))
    )
    e = rng.standard_normal(problem.dim)
    optimizer = _random_adam(rng, problem, e)
    turns = [haar_basis(int(sizes[0]), rng), np.eye(int(sizes[1]))]
    here, _ = _path(problem.blocks, e, optimizer, FEW_STEPS)
    turned = [turn @ block @ turn.T for turn, block in zip(turns, problem.blocks, strict=True)]
    there, _ = _path(turned, _turned(turns, e), optimizer, FEW_STEPS)
    back = _turned([turn.T for turn in turns], there)
    length = max(np.linalg.norm(here - e), np.linalg.norm(back - e))
    return Observation(-float(np.linalg.norm(back - here) / length))


@exact_result("6-bits", draws=300, rounding=0.0, relation="equality")
def bits(draw: Draw) -> Observation:
    """Sign flips of coordinates flip the float64 path bit for bit (minimizer 0, given settings) for each built-in
    optimizer whose rule is coordinatewise, or acts on blocks without regard to the order of coordinates; so do
    power-of-two scales of blocks, and of start and lr together, for Adam with ε = 0.

    Rounding to nearest treats x and −x alike, so a sum or product of flipped numbers is the flipped sum or product, to
    the bit. A coordinate's own rule (scope "coordinate") is an odd function of its gradients, and what a rule of whole
    blocks computes without regard to their order are sums of products of a coordinate with itself, which flips do not
    change. A rule that gives coordinates places, as in a matrix, multiplies one with another: not covered (6-bits-all).
    Multiplying by a power of two changes exponents alone, and rounding commutes with that as long as nothing leaves
    float64's range: √(4^k v) is 2^k √v, and the quotient of gradients and roots does not change at all. Settings left
    to the optimizer are computed from the problem, and are not covered.

    Draws go through all optimizers. Whether the order matters is measured: on three steps with a block's coordinates
    permuted.
    """
    rng = draw.rng
    problem = random_problem(rng, max_kappa=1e6)
    e = random_start(rng, problem) - problem.minimizer
    kinds = list(OPTIMIZERS.values())
    optimizer = _at_some_lr(kinds[draw.number % len(kinds)], rng, problem, e)
    if (optimizer.scope == "coordinate" or _is_blind_to_order(optimizer, rng, problem, e)) and _flip(
        rng, problem, e, optimizer
    ):
        return Observation(-1.0)
    powers, scale = rng.integers(-20, 21, len(problem.sizes)), 2.0 ** int(rng.integers(-8, 9))
    return Observation(-1.0 if _flip(rng, problem, e, _random_adam(rng, problem, e), powers, scale) else 0.0)


@false("6-bits-all", draws=3 * len(OPTIMIZERS), judge=lambda claim, observations: _name_those(claim, observations))
def bits_of_all(draw: Draw) -> Observation:
    """Sign flips of coordinates flip the path accordingly for every built-in optimizer.

    Muon takes a block's coordinates for a matrix and brings its singular values near 1. A flip of one coordinate
    changes the sign of one entry, and with it the singular values: of [[1, 1], [1, 1]] one is 0, of [[1, 1], [1, −1]]
    none. In blocks of one row all that is left is the direction, and flips are exact again. An earlier statement had
    all optimizers.
    """
    rng, kinds = draw.rng, list(OPTIMIZERS.values())
    spectra = [np.exp(rng.uniform(0, np.log(100), 4)) for _ in range(2)]
    problem = BlockQuadratic.from_spectra(spectra, seed=int(rng.integers(2**31)))
    e = rng.standard_normal(problem.dim)
    optimizer = _at_some_lr(kinds[draw.number % len(kinds)], rng, problem, e)
    return Observation(-_flip(rng, problem, e, optimizer), value=optimizer.name)


def _flip(
    rng: np.random.Generator,
    problem: BlockQuadratic,
    e: np.ndarray,
    optimizer: Optimizer,
    powers: Any = 0,
    scale: float = 1.0,
) -> float:
    """How far the path of a flipped problem, scaled by powers of two, is from the flipped path; 0 if no bit differs."""
    sign, steps = rng.choice([-1.0, 1.0], problem.dim), int(rng.integers(1, 2 * STEPS))
    powers = np.broadcast_to(powers, len(problem.sizes))
    flipped = [
        2.0**power * np.outer(part, part) * block
        for power, part, block in zip(powers, problem.split(sign), problem.blocks, strict=True)
    ]
    here, losses = _path(problem.blocks, e, optimizer, steps)
    there, losses_there = _path(flipped, scale * sign * e, _with_lr(optimizer, scale), steps)
    same = np.array_equal(there, scale * sign * here)
    if same and not powers.any():
        same = np.array_equal(losses_there, scale**2 * losses)
    if same:
        return 0.0
    return max(float(np.abs(there - scale * sign * here).max() / (scale * np.abs(e).max())), np.finfo(float).tiny)


def _is_blind_to_order(optimizer: Optimizer, rng: np.random.Generator, problem: BlockQuadratic, e: np.ndarray) -> bool:
    """Whether permuted coordinates of each block have the permuted path, over three steps and but for rounding."""
    orders = [rng.permutation(size) for size in problem.sizes]
    blocks = [block[np.ix_(order, order)] for block, order in zip(problem.blocks, orders, strict=True)]

    def permuted(vector: np.ndarray) -> np.ndarray:
        return np.concatenate([part[order] for part, order in zip(problem.split(vector), orders, strict=True)])

    here, there = _path(problem.blocks, e, optimizer, 3)[0], _path(blocks, permuted(e), optimizer, 3)[0]
    return bool(np.abs(there - permuted(here)).max() <= 1e-6 * np.abs(here - e).max())


def _at_some_lr(kind: type[Optimizer], rng: np.random.Generator, problem: BlockQuadratic, e: np.ndarray) -> Optimizer:
    """An optimizer at its default settings and a moderate lr: a part of 1/L where its steps are linear in gradients."""
    left_open = {item.name: 0.9 for item in fields(kind) if item.default is None and item.name != "lr"}
    if kind.homogeneous:
        return kind(lr=float(rng.uniform(0.01, 0.5)) / problem.lipschitz, **left_open)
    return kind(lr=float(np.median(np.abs(e)) * 10 ** rng.uniform(-3, -1.5)), **left_open)


def _path(
    blocks: Sequence[np.ndarray], e: np.ndarray, optimizer: Optimizer, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray]:
    """The error after some steps, and the losses up to there."""
    run = solve(
        BlockQuadratic.from_blocks(blocks), optimizer, w0=e, tol=0, max_steps=steps, record=1, engine="compiled"
    )
    return run.w, run.loss


def _turned(turns: Sequence[np.ndarray], vector: np.ndarray) -> np.ndarray:
    parts = np.split(vector, np.cumsum([len(turn) for turn in turns])[:-1])
    return np.concatenate([turn @ part for turn, part in zip(turns, parts, strict=True)])


def _random_adam(rng: np.random.Generator, problem: BlockQuadratic, e: np.ndarray) -> Adam | FrozenAdam:
    """Adam with ε = 0 at some setting, on its way to the minimizer: an lr that is a small part of the distance."""
    beta1 = float(rng.choice([0.0, 0.9, rng.uniform()]))
    if rng.uniform() < 0.25:
        best = FrozenAdam().with_best_lr(problem, e).lr
        assert isinstance(best, float)
        return FrozenAdam(lr=best * float(rng.uniform(0.1, 1)), beta1=beta1)
    return Adam(
        lr=float(np.median(np.abs(e)) * 10 ** rng.uniform(-3, -1.5)),
        beta1=beta1,
        beta2=float(rng.choice([0.0, 0.9, 0.999, rng.uniform()])),
        eps=0.0,
        bias_correction=bool(rng.integers(2)),
        init=str(rng.choice(["zero", "gradient"])),
    )


def _with_lr(optimizer: Optimizer, scale: float) -> Optimizer:
    assert isinstance(optimizer.lr, float)
    return replace(optimizer, lr=scale * optimizer.lr)


def _losses_of_both(draw: Draw, fixed: bool) -> np.ndarray:
    """Losses of Case 3 and of Case 4: (case, [lr = 2/(μ+L), 1/L], [step 30, 300])."""
    losses = []
    for number in (3, 4):
        problem = case(number, seed=int(draw.rng.integers(2**31)), minimizer="zero")
        e = np.ones(9) if fixed else draw.rng.standard_normal(9)
        both = [GD(), GD(lr=1 / problem.lipschitz)]
        runs = solve(problem, both, w0=e, tol=0, max_steps=300, record=30, threads=1, engine="compiled")
        losses.append([run.loss[[1, 10]] for run in runs])
    return np.array(losses)


def _p_values(observations: list[Observation]) -> tuple[np.ndarray, np.ndarray]:
    """Kolmogorov and Smirnov's p-value of each lr and step, and the losses (draws, case, lr, step)."""
    from scipy.stats import ks_2samp

    losses = np.array([one.value for one in observations])
    pairs = [ks_2samp(*losses[:, :, lr, step].T).pvalue for lr in range(2) for step in range(2)]
    return np.array(pairs), losses


def _same_law(claim: Claim, observations: list[Observation]) -> Verdict:
    p, _ = _p_values(observations)
    evidence = f"two-sample KS, {len(observations):,} v {len(observations):,}: p = " + ", ".join(
        f"{value:.2g}" for value in p
    )
    evidence += f" (margin: least p-value less {UNLIKELY / p.size:.2g})"
    margin = float(p.min()) - UNLIKELY / p.size
    return claim.verdict(margin, evidence, confirmed=not margin < 0, enough=len(observations) >= MIN_DRAWS)


def _another_law(claim: Claim, observations: list[Observation]) -> Verdict:
    p, losses = _p_values(observations)
    last = losses[:, :, 1, 1]  # lr = 1/L, step 300
    evidence = (
        f"at lr = 1/L and step 300 KS p = {p[3]:.1g}; means {last[:, 0].mean():.3f} and {last[:, 1].mean():.3f}, "
        f"standard deviations {last[:, 0].std():.3f} and {last[:, 1].std():.3f} (margin: p − {UNLIKELY:.0e})"
    )
    margin = float(p[3]) - UNLIKELY
    return claim.verdict(margin, evidence, confirmed=margin < 0, enough=len(observations) >= MIN_DRAWS)


def _name_those(claim: Claim, observations: list[Observation]) -> Verdict:
    names = list(dict.fromkeys(one.value for one in observations if one.slack < 0))
    judged = refuted(claim, observations)
    return judged._replace(evidence=judged.evidence + (f": {', '.join(names)}" if names else ""))


def _deviates(claim: Claim, observations: list[Observation]) -> Verdict:
    apart = -np.array([one.slack for one in observations])
    evidence = (
        f"the path rotated back deviates by {np.median(apart):.2f} of its length (median), at least {apart.min():.2g}"
    )
    # a single deviation could be magnified rounding: nearly every rotation must show it
    return claim.verdict(float(-apart.max()), evidence, confirmed=bool(np.mean(apart > 1e-3) > 0.95))
