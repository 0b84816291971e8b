"""Adam-mini: Adam with one second moment for each block."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, shared_v_rule


@dataclass(frozen=True)
class AdamMini(Moments):
    """w ← w − lr·m̂/(√v̂ + ε), v ← β2·v + (1 − β2)·mean of g² over the block: Adam with one v for each block.

    The blocks are the problem's. On blocks of size 1 it is Adam. Defaults are the paper's.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The decay rates of m and v.
    eps : float
        ε, outside the root.
    bias_correction : bool
        Divide the moments by the weight they have gathered.

    Notes
    -----
    Invariant under rotation, signs and scale.

    References
    ----------
    Zhang et al. (2024), arXiv 2406.16793

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.AdamMini(lr=0.1), tol=1e-2)
    >>> str(run.status)
    'converged'
    """

    name = "adam-mini"
    label = "Adam-mini"
    colour = "#118777"
    stroke = "dotted"
    list_order = 40
    reference = "Zhang et al. (2024), arXiv 2406.16793"
    invariances = ("rotation", "signs", "scale")
    scope = "block"
    rule = staticmethod(shared_v_rule)
