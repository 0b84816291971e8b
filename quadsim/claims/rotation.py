"""Ledger 7 and 8: diagonal Hessians, and rotated Hessians in two dimensions."""

from __future__ import annotations

import math

import numpy as np

from quadsim import theory
from quadsim.claims.adversary import Axis, Search
from quadsim.claims.ledger import ROUNDING, Claim, Verdict, exact_result, false, holds, proved, tested
from quadsim.claims.observations import Draw, Observation, least_slack, values_of
from quadsim.claims.sampling import diagonal_problem, one_block, random_start, run_compiled
from quadsim.optimizers import FrozenAdam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import diagonal
from quadsim.theory import rotation as plane

MIN_SAMPLES = 500  # to distinguish a law from another
LAW_DIMS = (2, 3, 9, 100)
MEDIAN_RATIOS = {9: 0.876, 100: 0.901, 1000: 0.922, 10_000: 0.935}
BEST_AT_1000 = {1: 2.867, 5: 32.06, 15: 251.5, 30: 750.5, 45: 1000.0}  # degrees, κ_b at κ = 1000
MEDIAN_DIGITS = 0.001
SOME_CONSTANT = 100  # of O(min(d, κ)) in 7-das
MEDIAN_SAMPLES = 40_000  # four standard errors of a share are then 1 %, or 3 % in the median


# rounding: 20 rounded steps of an lr up to 2/s_max
@exact_result("7", draws=500, rounding=1e-11, relation="equality")
def start_decides(draw: Draw) -> Observation:
    """For a diagonal H frozen Adam has κ_eff = max|e₀|/min|e₀|, whatever the spectrum is: every step multiplies
    coordinate i by 1 − lr/|e₀,i|.

    The first gradient is λ_i e₀,i, so S = D^-½HD^-½ is diagonal with entries λ_i/|λ_i e₀,i| = 1/|e₀,i|: the curvature
    cancels. The ratio of its extreme entries is max|e₀|/min|e₀|, and each coordinate follows e_i ← e_i − lr·λ_i
    e_i/|λ_i e₀,i|.

    Checked on κ_eff from the scaled eigenvalues of the blocks, and on the path of the solver.
    """
    rng = draw.rng
    spectra = [np.exp(rng.uniform(0, rng.uniform(0, 15), int(size))) for size in rng.integers(1, 8, rng.integers(1, 5))]
    problem = BlockQuadratic.from_spectra(spectra, rotation=0)
    e = random_start(rng, problem)
    size = np.abs(e)
    lr = float(rng.uniform(0.1, 2) * size.min())
    w = run_compiled(problem, FrozenAdam(lr=lr), e, 20).w
    off = np.abs(w - e * (1 - lr / size) ** 20) / size
    return Observation(-max(abs(theory.kappa_eff(problem, e) / (size.max() / size.min()) - 1), off.max()))


def _has_the_law(claim: Claim, observations: list[Observation]) -> Verdict:
    """χ² tests at each dimension; also, the cdf and the tail add up to 1, and agree with the formula at d = 2."""
    from scipy.stats import chi2

    ratios = np.concatenate([one.value for one in observations], axis=1)  # (dims, samples)
    p, errors = [], []
    for dim, sample in zip(LAW_DIMS, ratios, strict=True):
        median = diagonal.diagonal_kappa_eff_median(dim)
        edges = 1 + (median - 1) * np.array([0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 15])
        cdf = np.array([diagonal.diagonal_kappa_eff_cdf(float(x), dim) for x in edges])
        tail = np.array([diagonal.diagonal_kappa_eff_tail(float(x), dim) for x in edges])
        expected = np.diff(np.concatenate([[0], cdf, [1]])) * sample.size
        counts = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1)
        p.append(float(chi2.sf(((counts - expected) ** 2 / expected).sum(), edges.size)) if (expected > 0).all() else 0)
        errors.append(np.abs(cdf + tail - 1).max())
        if dim == 2:
            errors.append(np.abs(4 / math.pi * np.arctan(edges) - 1 - cdf).max())
    numbers = ", ".join(f"{value:.2g} (d = {dim})" for value, dim in zip(p, LAW_DIMS, strict=True))
    evidence = f"χ² of {ratios.shape[1]:,} starts: p = {numbers}"
    consistent = max(errors) <= 1e-12  # the error of the integral is d·1e-15
    return claim.law_verdict(p, evidence, enough=ratios.shape[1] >= MIN_SAMPLES, consistent=consistent)


@exact_result("7-law", draws=2000, judge=_has_the_law, relation="sample")
def law_of_the_ratio(draw: Draw) -> Observation:
    """For a diagonal H and e₀ ~ N(0, I) in d dimensions, P(κ_eff ≤ x) = ∫ d f(m) [F(xm) − F(m)]^(d−1) dm over m > 0,
    where f and F are the density and the distribution function of |N(0, 1)|; at d = 2 this is (4/π) arctan x − 1.

    By 7, κ_eff ≤ x means that all |e₀,i| lie in [m, xm], where m is the least of them. Any of the d coordinates may be
    the least; its density is f(m), and each of the other d − 1 lies between m and xm with probability F(xm) − F(m). In
    two dimensions the angle of e₀, folded into the first quadrant, is uniform on [0, π/2], and κ_eff ≤ x if and only if
    its tangent lies between 1/x and x: with probability (arctan x − arctan 1/x)/(π/2) = (4/π) arctan x − 1.

    Checked at d = 2, 3, 9 and 100 by a χ² test of the counts of Gaussian starts in ten bins against the integral.
    """
    starts = [np.abs(draw.rng.standard_normal((8, dim))) for dim in LAW_DIMS]
    return Observation(value=np.array([start.max(axis=1) / start.min(axis=1) for start in starts]))  # (dims, 8)


def _has_the_medians(claim: Claim, observations: list[Observation]) -> Verdict:
    ratios = np.concatenate([one.value for one in observations], axis=1)  # (dims, samples)
    error, worst, parts = 0.5 / math.sqrt(ratios.shape[1]), np.inf, []
    for (dim, stated), sample in zip(MEDIAN_RATIOS.items(), ratios, strict=True):
        formula = diagonal.diagonal_kappa_eff_median_formula(dim)
        exact = diagonal.diagonal_kappa_eff_median(dim) / formula
        below = [float((sample <= (stated + sign * MEDIAN_DIGITS) * formula).mean()) - 0.5 for sign in (-1, 1)]
        # half of the samples must be below the stated median, give or take its last digit
        worst = min(worst, 4 - below[0] / error, 4 + below[1] / error, 4 - 4 * abs(exact - stated) / MEDIAN_DIGITS)
        parts.append(f"{np.median(sample) / formula:.3f} (exact {exact:.4f}) at d = {dim}")
    evidence = f"{ratios.shape[1]:,} samples: " + ", ".join(parts)
    return claim.verdict(worst / 4, evidence, confirmed=worst >= 0, enough=ratios.shape[1] >= MEDIAN_SAMPLES)


@tested("7-median", draws=4000, judge=_has_the_medians, relation="sample")
def median_of_the_ratio(draw: Draw) -> Observation:
    """For a diagonal H and e₀ ~ N(0, I) the median of κ_eff grows like d √(2 ln d) √(2/π)/ln 2; relative to this it is
    0.876 at d = 9, 0.901 at 100, 0.922 at 10³ and 0.935 at 10⁴.

    For large d the largest |e₀,i| is near √(2 ln d), with small relative fluctuations. The least is approximately
    exponential: P(min > m) ≈ exp(−d √(2/π) m), with median ln 2 √(π/2)/d. The quotient of the two is the formula. The
    largest of d normals approaches √(2 ln d) slowly, from below, with a difference of about (ln ln d + ln π)/(2 √(2 ln
    d)), and so does the median of κ_eff.

    The figures are those of the exact law 7-law; earlier figures were 0.93 at 10³ and 0.965 at 10⁴. They are checked
    against this law, and against samples of (min, max): the least of d uniform numbers is 1 − u^(1/d), the largest of
    the others is uniform to the power 1/(d − 1) between it and 1, and both are mapped by F⁻¹.
    """
    from scipy.special import erfcinv, erfinv

    dims = np.array(list(MEDIAN_RATIOS))[:, None]
    log_u, log_v = np.log(1 - draw.rng.uniform(size=(2, dims.size, 50)))
    least = -np.expm1(log_u / dims)
    tail = (1 - least) * -np.expm1(log_v / (dims - 1))  # 1 − F of the largest
    return Observation(value=np.float32(erfcinv(tail) / erfinv(least)))  # (dims, 50), in half the memory


# rounding: x is at least 10⁷ d, and the next order is about Md/x relative to the first
@proved("7-tail", draws=100, rounding=1e-5, relation="equality")
def tail_of_the_ratio(draw: Draw) -> Observation:
    """For a diagonal H and e₀ ~ N(0, I) the tail of κ_eff decays like 1/x: x·P(κ_eff > x) → d √(2/π) M, where M is the
    mean of the largest of d − 1 numbers |N(0, 1)|; so κ_eff has an infinite mean.

    κ_eff > x means that the absolute value of some coordinate is below the largest of the others divided by x. Given
    this largest value m, the probability for one coordinate is F(m/x) = √(2/π) m/x up to higher order; there are d
    coordinates, and the probability for two at once is of order 1/x². The mean of κ_eff is 1 plus the integral of its
    tail from 1 to ∞, and ∫ dx/x diverges.

    Checked on the tail of the exact law, with M from another integral, that of 1 − F^(d−1).
    """
    from scipy.integrate import quad
    from scipy.special import erf

    dim = int(10 ** draw.rng.uniform(math.log10(2), 4))
    x = float(dim * 10 ** draw.rng.uniform(7, 12))
    mean = quad(lambda m: 1 - erf(m / math.sqrt(2)) ** (dim - 1), 0, 12, epsabs=1e-11, epsrel=1e-11)[0]
    limit = dim * math.sqrt(2 / math.pi) * mean
    return Observation(-abs(x * diagonal.diagonal_kappa_eff_tail(x, dim) / limit - 1))


@false("7-das", draws=60)
def at_max_kappa(draw: Draw) -> Observation:
    """For a diagonal H frozen Adam's κ_eff is at most 100·min(d, κ) for at least half of Gaussian starts.

    H = I has κ = 1, so min(d, κ) = 1 for every d; but by 7 κ_eff = max|e₀|/min|e₀|, whose median over Gaussian starts
    is at least 2d for d from 10 to 10⁴ and grows like d √(ln d) (7-median), so it exceeds 100, or any constant, for
    some d. For diagonal Hessians Das et al. bound what Adam's preconditioner can reach by O(min(d, κ)) (quoted from
    their abstract): the bound by d holds here up to the square root of a logarithm, but with v frozen at the first
    gradient there is no bound by κ.

    A draw contradicts the claim if the exact median at some d from 10 to 10⁴ is at least 2d and above the claimed
    bound, and the median of κ_eff over 51 starts on a multiple of I, at another d between 60 and 120, is above the
    bound as well.
    """
    rng = draw.rng
    dim = int(10 ** rng.uniform(1, 4))
    median = diagonal.diagonal_kappa_eff_median(dim)
    problem = diagonal_problem(np.full(int(rng.integers(60, 121)), np.exp(rng.uniform(-5, 5))))
    sample = [theory.kappa_eff(problem, rng.standard_normal(problem.dim)) for _ in range(51)]
    bound = SOME_CONSTANT * problem.kappa  # min(d, κ) = κ = 1 at every d
    slack = max(bound / median, bound / np.median(sample)) - 1
    return Observation(slack if median >= 2 * dim else np.inf)


@exact_result("8", draws=500, relation="equality")
def best_scaling(draw: Draw) -> Observation:
    """For H = R(θ) diag(1, κ) R(θ)ᵀ in two dimensions the least condition number κ_b of DHD over all diagonal D
    satisfies sinh(½ ln κ_b) = |sin 2θ| sinh(½ ln κ), and the scaling to unit diagonal attains it. At κ = 1000 κ_b is
    2.867 at 1°, 32.06 at 5°, 251.5 at 15°, 750.5 at 30° and 1000 at 45°.

    A 2 x 2 matrix with eigenvalues in the ratio k has cosh²(½ ln k) = tr²/(4 det). For DHD with entries h_i = D_i²H_ii
    this is (h₁ + h₂)²/(4h₁h₂) · H₁₁H₂₂/det H: the second factor does not depend on D, the first is at least 1, with
    equality for h₁ = h₂, the scaling to unit diagonal. So cosh²(½ ln κ_b) = H₁₁H₂₂/det H = 1 + H₁₂²/κ, and H₁₂ = (1 −
    κ) sin θ cos θ gives sinh(½ ln κ_b) = |sin 2θ| (κ − 1)/(2√κ).

    Checked against Brent's minimisation over ln(D₂/D₁), which uses no formula, and against the unit-diagonal scaling;
    the table at κ = 1000 against the formula, to four digits.
    """
    from scipy.optimize import minimize_scalar

    kappa, angle, h = _random_rotated(draw.rng)

    def scaled(log: float) -> float:
        d = np.array([1.0, math.exp(log)])
        return _condition(h * np.outer(d, d))

    least = minimize_scalar(scaled, bounds=(-8, 8), method="bounded", options={"xatol": 1e-9}).fun
    jacobi = scaled(0.5 * math.log(h[0, 0] / h[1, 1]))
    formula = plane.best_scaling_kappa(kappa, angle)
    table = [float(f"{plane.best_scaling_kappa(1000.0, math.radians(at)):.4g}") for at in BEST_AT_1000]
    if table != list(BEST_AT_1000.values()):
        return Observation(-1.0)
    # the relative error of the small eigenvalue is eps·κ; the minimum is flat, so its value is as accurate
    return Observation(-max(abs(least / formula - 1), abs(jacobi / formula - 1)))


def _equal_relative_to_kappa(claim: Claim, observations: list[Observation]) -> Verdict:
    verdict = holds(claim, observations)
    return verdict._replace(evidence=verdict.evidence + ", deviations divided by the larger of κ_eff and κ")


# rounding: some eps, since deviations are divided by κ_eff or κ, by which the small eigenvalue magnifies rounding
@exact_result("8-kappa-eff", draws=500, rounding=1e-13, judge=_equal_relative_to_kappa, relation="equality")
def frozen_adam_in_the_plane(draw: Draw) -> Observation:
    """In two dimensions frozen Adam has cosh(½ ln κ_eff) = cosh(½ ln κ_b) cosh(½ ln(a₁/a₂)), where a_i = H_ii/|g₀,i|
    and κ_b is the condition number of the best diagonal scaling.

    S = D^-½HD^-½ with D = diag|g₀| is a diagonal scaling of H with S_ii = a_i. As in the proof of 8, cosh²(½ ln κ_eff)
    = (a₁ + a₂)²/(4a₁a₂) · H₁₁H₂₂/det H; the first factor is cosh²(½ ln(a₁/a₂)), the second cosh²(½ ln κ_b).

    Relative deviations of κ_eff are divided by the larger of κ_eff and κ, since the error of the small eigenvalue is
    eps times the large one.
    """
    kappa, angle, h = _random_rotated(draw.rng)
    problem = one_block(h)
    e = random_start(draw.rng, problem)
    a = np.diag(h) / np.abs(h @ e)
    formula = plane.kappa_eff_2d(kappa, angle, float(a[0] / a[1]))
    return Observation(-abs(theory.kappa_eff(problem, e) / formula - 1) / max(formula, kappa))


def _slack_at_45(kappa: float, angle: float) -> float:
    """κ_eff/κ − 1 at 45°, from the start in this direction."""
    problem = one_block(_rotated(kappa, math.pi / 4))
    return theory.kappa_eff(problem, [math.cos(angle), math.sin(angle)]) / kappa - 1


AXES_AT_45 = (Axis("kappa", 1, 1e6, log=True), Axis("angle", 0, math.pi))


@proved("8-45", draws=500, tight=True, search=Search(AXES_AT_45, _slack_at_45))
def no_gain_at_45_degrees(draw: Draw) -> Observation:
    """In two dimensions at 45° frozen Adam has κ_eff ≥ κ from every start, with equality where |g₀,₁| = |g₀,₂|.

    At 45° sin 2θ = 1, so κ_b = κ by 8: H has a constant diagonal, and no diagonal scaling improves κ. By 8-kappa-eff
    cosh(½ ln κ_eff) is cosh(½ ln κ) times a factor of at least 1, which is 1 if and only if a₁ = a₂, that is |g₀,₁| =
    |g₀,₂|: on the eigenvectors, e₀ = (1, ±1).
    """
    kappa = float(np.exp(draw.rng.uniform(0, np.log(1e6))))
    slack = _slack_at_45(kappa, draw.rng.uniform(0.01, 3.1))
    return Observation(slack, abs(_slack_at_45(kappa, math.pi / 4)))


def _is_cauchy(claim: Claim, observations: list[Observation]) -> Verdict:
    from scipy.stats import kstest

    quantiles, off = values_of(observations).ravel(), -least_slack(observations)
    p = float(kstest(quantiles, "uniform").pvalue)
    evidence = (
        f"KS of {quantiles.size:,} quotients: p = {p:.2g}; the two forms of location and scale agree to {off:.1g}"
    )
    return claim.law_verdict([p], evidence, enough=quantiles.size >= MIN_SAMPLES, consistent=off <= ROUNDING)


@exact_result("8-law", draws=1000, judge=_is_cauchy, relation="sample")
def gradient_ratio(draw: Draw) -> Observation:
    """In two dimensions, with e₀ ~ N(0, I), g₀,₂/g₀,₁ has the Cauchy law with location ϱσ and scale σ√(1 − ϱ²), where
    σ² = (H²)₂₂/(H²)₁₁ and ϱ is the correlation in H².

    g₀ = He₀ is Gaussian with covariance H². Write g₀,₂ = ϱσ g₀,₁ + σ√(1 − ϱ²) s₁N, with s₁² = (H²)₁₁ the variance of
    g₀,₁ and N an independent standard normal: the quotient is ϱσ + σ√(1 − ϱ²) · N/(g₀,₁/s₁), and the quotient of two
    independent standard normals is Cauchy.

    Checked by a Kolmogorov–Smirnov test: the distribution function of the Cauchy law at each sample must be uniform.
    """
    kappa = np.exp(draw.rng.uniform(0, np.log(100)))
    h = np.exp(draw.rng.uniform(-3, 3)) * _rotated(kappa, draw.rng.uniform(0, math.pi))
    square = h @ h
    sigma = math.sqrt(square[1, 1] / square[0, 0])
    c = square[0, 1] / math.sqrt(square[0, 0] * square[1, 1])
    location, scale = plane.gradient_ratio_law(h)
    expected = np.array([c * sigma, sigma * math.sqrt(max(1 - c * c, 0))])
    g = h @ draw.rng.standard_normal((2, 20))
    quantiles = 0.5 + np.arctan((g[1] / g[0] - location) / scale) / math.pi
    return Observation(-np.abs(expected - [location, scale]).max() / np.abs(expected).max(), value=quantiles)


def _random_rotated(rng: np.random.Generator) -> tuple[float, float, np.ndarray]:
    """κ up to 10⁵, any angle, and the matrix."""
    kappa, angle = float(np.exp(rng.uniform(0, np.log(1e5)))), rng.uniform(-math.pi, math.pi)
    return kappa, angle, _rotated(kappa, angle)


def _rotated(kappa: float, angle: float) -> np.ndarray:
    """R(θ) diag(1, κ) R(θ)ᵀ."""
    c, s = math.cos(angle), math.sin(angle)
    off = (1 - kappa) * s * c
    return np.array([[c * c + kappa * s * s, off], [off, s * s + kappa * c * c]])


def _condition(h: np.ndarray) -> float:
    """κ of a 2 x 2 matrix, from its determinant."""
    middle = (h[0, 0] + h[1, 1]) / 2
    top = middle + math.hypot((h[0, 0] - h[1, 1]) / 2, h[0, 1])
    return float(top * top / (h[0, 0] * h[1, 1] - h[0, 1] ** 2))
