"""AdaSGD: Adam with one second moment for all coordinates."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, shared_v_rule


@dataclass(frozen=True)
class AdaSGD(Moments):
    """w ← w − lr·m̂/(√v̂ + ε), v ← β2·v + (1 − β2)·mean of g²: Adam with one v for all coordinates.

    The momentum is Adam's, so that only v differs. The paper's momentum, m ← β1·m + g without bias correction, makes
    the steps 1/(1 − β1) times as long after the first few.

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
    Wang & Wiens (2020), arXiv 2006.16541

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.AdaSGD(lr=0.1), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

    name = "adasgd"
    label = "AdaSGD"
    colour = "#B9310C"
    stroke = "dotted"
    list_order = 41
    reference = "Wang & Wiens (2020), arXiv 2006.16541"
    invariances = ("rotation", "signs", "scale")
    scope = "all"
    rule = staticmethod(shared_v_rule)
