"""What must happen: constants, rates and bounds. Each says what it assumes, and whether it is tight or upper.

Nothing here runs a solver. The numbers in brackets, here and elsewhere, are those of the ledger of claims:

1a  GD with lr = 2/(μ + L): loss[t+1] ≤ ((κ−1)/(κ+1))² loss[t], the best guarantee of any constant lr.
1b  From one start, which does not depend on the lr, no constant lr does better than that in any step.
2a  Frozen Adam is GD on D^-½HD^-½, D = diag|g₀|, whose condition number is κ_eff.
2b  Frozen Adam with lr = min C_{k,1}: loss[t+1] ≤ max (1 − lr/(C_{l,2} κ_l))² loss[t]; implies the paper's Theorem 1.
3   Block GD with lr_l = 2/(μ_l + L_l): as 1a, with the worst block's κ_l.
5   Adam with β2 < 1 and constant lr does not converge: it ends on cycles of size lr (5c); on the way there its
    iterates may shrink below float64's range, and then seem to have converged (5i).
6   GD commutes with rotations; Adam with permutations, sign flips and, without ε, the scale of each block.
7   For a diagonal Hessian κ_eff = max|e₀|/min|e₀|, whatever the spectrum.
"""

from quadsim.theory.constants import kappa_eff, r
from quadsim.theory.rates import (
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
