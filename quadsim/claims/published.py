"""Ledger 2 on the published cases: medians of κ_eff, and verdicts on sentences of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quadsim import theory
from quadsim.claims.ledger import HOLDS, REFUTED, UNDECIDED, Claim, Verdict, paper, tested
from quadsim.claims.observations import Draw, Observation, least_slack, values_of
from quadsim.claims.sampling import random_case_and_error, rotated_blocks
from quadsim.engine.closed_form.exact import exact
from quadsim.optimizers import GD, FrozenAdam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import case_spectra

SIGMAS = 4.0  # a share differs from a number if it is this many standard errors away
MEDIANS = {3: (21.1, 0.05), 4: (8.60e3, 5.0)}  # of κ_eff in each case, and half a unit of the last digit
BELOW = {3: (0.9972, 5e-5), 4: (0.282, 5e-4)}  # P(κ_eff < 5000)
SAMPLES = 320  # in each draw
MIN_SAMPLES = 64_000  # four standard errors are then 2 % in the median of Case 3


def _judge_medians(claim: Claim, observations: list[Observation]) -> Verdict:
    values = np.concatenate([one.value for one in observations], axis=1)  # (cases, samples)
    medians, shares, count = np.median(values, axis=1), (values < 5000).mean(axis=1), values.shape[1]
    evidence = (
        f"{count:,} samples: median κ_eff {medians[0]:.4g} in Case 3 and {medians[1]:.4g} in Case 4; "
        f"P(κ_eff < κ) = {shares[0]:.4f} and {shares[1]:.4f}"
    )
    margins = [-1.0] if least_slack(observations) < 0 else []  # the sampler and `kappa_eff` disagree
    for (stated, digit), sample in zip(MEDIANS.values(), values, strict=True):
        error = SIGMAS * 0.5 / count**0.5
        margins += [error + 0.5 - (sample < stated - digit).mean(), error - 0.5 + (sample < stated + digit).mean()]
    for (stated, digit), share in zip(BELOW.values(), shares, strict=True):
        margins.append(SIGMAS * (stated * (1 - stated) / count) ** 0.5 + digit - abs(share - stated))
    margin = float(min(margins))
    return claim.verdict(margin, evidence, confirmed=not margin < 0, enough=count >= MIN_SAMPLES)


@tested("2-medians", draws=500, judge=_judge_medians, relation="sample")
def case_medians(draw: Draw) -> Observation:
    """Over Gaussian starts and Haar bases, the median of κ_eff is 21.1 in Case 3 and 8.60·10³ in Case 4, and κ_eff is
    below κ = 5000 with probability 0.9972 and 0.282 respectively: in Case 4 frozen Adam is usually worse than GD, even
    at its best lr.

    Measured, without proof: over 3.5 million draws the medians were 21.09 ± 0.02 and 8604 ± 7, the shares 0.9972 and
    0.2825 (measured once); an earlier figure was 20.7, from 4000 draws, whose standard error is 0.45. The reason is
    proved: by 2d κ_eff is at most √r times the largest κ_l, which is at most 3 in the blocks of Case 3 and 5000 in
    those of Case 4. A Haar basis mixes both ends of the spectrum of a block in all of its coordinates, and no scaling
    of coordinates can separate them again.

    A draw samples 320 bases and starts of each case, and compares the first of them with κ_eff of the problem. The
    tolerance is four standard errors of the share of samples below the stated number, give or take its last digit.
    """
    values, off = [], 0.0
    for number in MEDIANS:
        kappas, first, e = _kappas(draw.rng, case_spectra(number))
        values.append(kappas)
        off = max(off, abs(theory.kappa_eff(BlockQuadratic.from_blocks(first), e) / kappas[0] - 1))
    return Observation(0.0 if off < 1e-6 else -off, value=np.array(values, dtype=np.float32))


def _kappas(rng: np.random.Generator, spectra: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """κ_eff of many Haar bases of these blocks, each from a Gaussian start; blocks and start of the first sample."""
    low, high, first, starts = np.full(SAMPLES, np.inf), np.zeros(SAMPLES), [], []
    for values in spectra:
        n = values.size
        q, r = np.linalg.qr(rng.standard_normal((SAMPLES, n, n)))
        q = q * np.sign(np.einsum("kii->ki", r))[:, None, :]  # Haar, whatever the sign convention of LAPACK
        h = rotated_blocks(q, values)
        e = rng.standard_normal((SAMPLES, n))
        root = np.sqrt(np.abs(np.einsum("kij,kj->ki", h, e)))
        ends = np.linalg.eigvalsh(h / (root[:, :, None] * root[:, None, :]))
        low, high = np.minimum(low, ends[:, 0]), np.maximum(high, ends[:, -1])
        first.append(h[0])
        starts.append(e[0])
    return high / low, first, np.concatenate(starts)


def _judge_share(claim: Claim, observations: list[Observation]) -> Verdict:
    """Whether a share is at least 2/3, as the paper states."""
    share, n = float(values_of(observations).mean()), len(observations)
    error = max((share * (1 - share) / n) ** 0.5, 0.5 / n)
    evidence = f"P(r ≤ 1000) = {share:.4g} ± {error:.2g}; the paper states at least 2/3"
    margin = share - 2 / 3
    decided = abs(margin) > 3 * error
    return Verdict((HOLDS if margin > 0 else REFUTED) if decided else UNDECIDED, margin, evidence)


@paper("2-paper-r", draws=12_000, judge=_judge_share, expected=REFUTED)
def paper_r(draw: Draw) -> Observation:
    """In Case 3, r = max_l C_{l,2}²/min_l C_{l,1}² is at most 1000 with probability at least 2/3 (arXiv 2402.16788,
    over 1000 trials).

    With the maximum and the minimum taken over all blocks, the share is about 0.64 over many draws, slightly below 2/3.
    The standard error of a thousand trials is 0.015, so they can fall on either side. Which definition of r the paper
    used is not known; the verdict is on this one.
    """
    problem, e = random_case_and_error(draw.rng, 3)
    return Observation(value=theory.r(problem, e0=e) <= 1000)


@paper("2-paper-r-within", draws=2000, judge=_judge_share, expected=HOLDS)
def paper_r_within(draw: Draw) -> Observation:
    """In Case 3, with the ratio taken within each block, r = max_l C_{l,2}²/C_{l,1}² is at most 1000 with probability
    at least 2/3.

    The other reading of the definition: the share is about 0.77 over many draws. Theorem 1 needs the first reading;
    which one the sentence of the paper used is not known, and the verdict is on this one.
    """
    problem, e = random_case_and_error(draw.rng, 3)
    return Observation(value=theory.r(problem, e0=e, within_blocks=True) <= 1000)


def _judge_factor(claim: Claim, observations: list[Observation]) -> Verdict:
    ratios = np.sort(values_of(observations))
    n = ratios.size
    spread = SIGMAS * 0.5 * n**0.5
    low, high = (ratios[int(np.clip(n / 2 + side * spread, 0, n - 1))] for side in (-1, 1))
    evidence = f"GD's steps over Adam's: median {np.median(ratios):.0f} (between {low:.0f} and {high:.0f})"
    if spread > n / 2:
        return Verdict(UNDECIDED, None, evidence)
    inside = low <= 10 and high >= 2.5  # "about 5": within a factor of two
    return Verdict(HOLDS if inside else REFUTED, float(5 / np.median(ratios) - 1), evidence)


@paper("2-paper-5x", draws=200, judge=_judge_factor, expected=REFUTED)
def paper_5x(draw: Draw) -> Observation:
    """In Case 3, Adam (β2 = 1) is about 5 times as fast as GD: the conclusion of the paper from its bound, read as a
    measurement.

    The bound is loose in two ways (2c); in steps to ‖g‖ ≤ 10⁻⁶‖g₀‖ the median ratio is about 300, far more than 5, so
    the paper understates its result. As a bound, 5 is compatible with this; the verdict is on the measurement.
    """
    problem, e = random_case_and_error(draw.rng, 3)
    steps = [exact(problem, optimizer, e0=e).steps_to_tol for optimizer in (GD(), FrozenAdam())]
    return Observation(value=steps[0] / max(steps[1], 1) if None not in steps else np.nan)  # type: ignore[operator,type-var]
