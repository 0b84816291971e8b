"""Adam-mini: Adam with one second moment for each block."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, shared_v_rule


@dataclass(frozen=True)
class AdamMini(Moments):
    """Adam-mini of Zhang et al. (2024): Adam with one v for each block, the moving average of the block's mean of g².

    The blocks are the problem's. On blocks of size 1 it is Adam. Defaults are the paper's.
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
