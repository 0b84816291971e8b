"""AMSGrad: Adam with the largest second moment so far."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, adam_step, ema


@dataclass(frozen=True)
class AMSGrad(Moments):
    """w ← w − lr·m̂/(√(max v/c) + ε): Adam divided by the largest v so far.

    As in torch.optim.Adam(amsgrad=True), whose defaults these are, the maximum is taken of v, and bias is corrected
    afterwards (c = 1 − β2^t). optax corrects first and takes the maximum of v̂: a different method while t is of
    the order of 1/(1 − β2), and the same with ``bias_correction=False``, as in the paper.

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
    Invariant under signs and scale.

    References
    ----------
    Reddi, Kale & Kumar (2018), arXiv 1904.09237

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.AMSGrad(lr=0.1), tol=1e-2)
    >>> str(run.status)
    'converged'
    """

    name = "amsgrad"
    label = "AMSGrad"
    colour = "#8A1851"
    stroke = "dotted"
    list_order = 23
    reference = "Reddi, Kale & Kumar (2018), arXiv 1904.09237"
    state = ("m", "v", "v_max")

    @staticmethod
    def rule(g, m, v, v_max, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), ema(v, g * g, beta2)
        v_max = v if v > v_max else v_max
        return adam_step(m, v_max, lr, eps, unbias1, unbias2), m, v, v_max
