"""Constants, rates, bounds and floors. Each states its assumptions, and whether it is tight or an upper bound.

Nothing here runs a solver. Numbers in parentheses refer to the ledger of claims, which `quadsim.claims` states, proves
and checks:

1  GD: the factor of a step, and the start that is slowest for every lr     (rates)
2  frozen Adam is GD on D^-½HD^-½: κ_eff, r, and what bounds them           (rates, constants)
3  block GD                                                                 (rates)
4  heavy ball and Nesterov, with their transients                           (rates)
5  Adam with β2 < 1 does not converge: its cycles and its floor             (floors, sdp)
6  invariances: rotations for GD, block scales for Adam
7  a diagonal Hessian: the law of κ_eff                                     (diagonal)
8  two dimensions, from diagonal to 45 degrees                              (rotation)
9  closed forms, and how accurate they are                                  (`quadsim.exact`)
10 the Zipf bigram model                                                    (zipf)
"""

# ruff: noqa: F401  (the imports are the public names)
from quadsim import _discovery
from quadsim.theory.constants import block_scaling_bound, cosines, jacobi_kappas, kappa_eff, norm_11, r, scaling_bounds
from quadsim.theory.diagonal import (
    diagonal_kappa_eff_cdf,
    diagonal_kappa_eff_median,
    diagonal_kappa_eff_median_formula,
    diagonal_kappa_eff_tail,
)
from quadsim.theory.floors import (
    FloorBounds,
    amplitude_1d,
    contraction_depth,
    cycle_loss,
    cycle_multipliers,
    cycle_spectrum,
    cycles,
    floor,
    floor_bounds,
    is_stable_cycle,
    nonconvergence,
    stability_limit,
)
from quadsim.theory.rates import (
    MEASURES,
    best,
    best_frozen_momentum,
    best_rate,
    block_rate,
    bound,
    heavy_ball_bound,
    heavy_ball_peak,
    lower_bound,
    nesterov_bound,
    rate,
    slowest_start,
    theorem_1,
)
from quadsim.theory.rotation import best_scaling_kappa, gradient_ratio_law, kappa_eff_2d
from quadsim.theory.sdp import SDPValue, largest_sign_sum, sdp_value
from quadsim.theory.zipf import (
    zipf_gd_loss,
    zipf_gd_time,
    zipf_gd_time_formula,
    zipf_sign_best_lr,
    zipf_sign_loss,
    zipf_sign_time,
    zipf_sign_time_formula,
)


def __dir__() -> list[str]:
    return _discovery.public_names(globals())
