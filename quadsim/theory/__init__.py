"""What must happen: constants, rates, bounds and floors. Each says what it assumes, and whether it is tight or upper.

Nothing here runs a solver. Numbers in brackets, here and elsewhere, are those of the ledger of claims, which
`quadsim.claims` states, proves and checks:

1  GD: what a step guarantees, and the start that no constant lr beats      (rates)
2  frozen Adam is GD on D^-½HD^-½: κ_eff, r, and what bounds them           (rates, constants)
3  block GD                                                                 (rates)
4  heavy ball and Nesterov, with their transients                           (rates)
5  Adam with β2 < 1 does not converge: its cycles and its floor             (floors, sdp)
6  what leaves a path alone: rotations for GD, block scales for Adam
7  a diagonal Hessian: the law of κ_eff                                     (diagonal)
8  two dimensions, from diagonal to 45 degrees                              (rotation)
9  closed forms, and how accurate they are                                  (`quadsim.exact`)
10 the Zipf bigram model                                                    (zipf)
"""

from quadsim.theory.constants import (
    block_scaling_bound,
    cosines,
    jacobi_kappas,
    kappa_eff,
    norm_11,
    r,
    scaling_bounds,
)
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
from quadsim.theory.rotation import (
    best_scaling_kappa,
    gradient_ratio_law,
    kappa_eff_2d,
)
from quadsim.theory.sdp import (
    SDPValue,
    largest_sign_sum,
    sdp_value,
)
from quadsim.theory.zipf import (
    zipf_gd_loss,
    zipf_gd_time,
    zipf_gd_time_formula,
    zipf_sign_best_lr,
    zipf_sign_loss,
    zipf_sign_time,
    zipf_sign_time_formula,
)

__all__ = [
    "MEASURES",
    "FloorBounds",
    "SDPValue",
    "amplitude_1d",
    "best",
    "best_frozen_momentum",
    "best_rate",
    "best_scaling_kappa",
    "block_rate",
    "block_scaling_bound",
    "bound",
    "contraction_depth",
    "cosines",
    "cycle_loss",
    "cycle_multipliers",
    "cycle_spectrum",
    "cycles",
    "diagonal_kappa_eff_cdf",
    "diagonal_kappa_eff_median",
    "diagonal_kappa_eff_median_formula",
    "diagonal_kappa_eff_tail",
    "floor",
    "floor_bounds",
    "gradient_ratio_law",
    "heavy_ball_bound",
    "heavy_ball_peak",
    "is_stable_cycle",
    "jacobi_kappas",
    "kappa_eff",
    "kappa_eff_2d",
    "largest_sign_sum",
    "lower_bound",
    "nesterov_bound",
    "nonconvergence",
    "norm_11",
    "r",
    "rate",
    "scaling_bounds",
    "sdp_value",
    "slowest_start",
    "stability_limit",
    "theorem_1",
    "zipf_gd_loss",
    "zipf_gd_time",
    "zipf_gd_time_formula",
    "zipf_sign_best_lr",
    "zipf_sign_loss",
    "zipf_sign_time",
    "zipf_sign_time_formula",
]
