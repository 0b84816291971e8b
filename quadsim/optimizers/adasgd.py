"""AdaSGD: Adam with one second moment for all coordinates."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, shared_v_rule


@dataclass(frozen=True)
class AdaSGD(Moments):
    """AdaSGD of Wang & Wiens (2020): Adam with one v for all coordinates, the moving average of the mean of g².

    The momentum is Adam's, so that only v differs. The paper's momentum, m ← β1·m + g without bias correction, makes
    the steps 1/(1 − β1) times as long after the first few.
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
