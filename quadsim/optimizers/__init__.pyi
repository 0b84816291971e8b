"""The public names with their types, generated from `__init__.py`: python tests/test_types.py"""

from typing import Any

from quadsim.optimizers.adagrad import AdaGrad as AdaGrad
from quadsim.optimizers.adam import Adam as Adam
from quadsim.optimizers.adam_mini import AdamMini as AdamMini
from quadsim.optimizers.adam_variance import AdamVariance as AdamVariance
from quadsim.optimizers.adamw import AdamW as AdamW
from quadsim.optimizers.adasgd import AdaSGD as AdaSGD
from quadsim.optimizers.amsgrad import AMSGrad as AMSGrad
from quadsim.optimizers.base import LearningRate as LearningRate
from quadsim.optimizers.base import Optimizer as Optimizer
from quadsim.optimizers.block_gd import BlockGD as BlockGD
from quadsim.optimizers.frozen_adam import FrozenAdam as FrozenAdam
from quadsim.optimizers.gd import GD as GD
from quadsim.optimizers.heavy_ball import HeavyBall as HeavyBall
from quadsim.optimizers.lion import Lion as Lion
from quadsim.optimizers.magma import Magma as Magma
from quadsim.optimizers.muon import Muon as Muon
from quadsim.optimizers.nadam import NAdam as NAdam
from quadsim.optimizers.nesterov import Nesterov as Nesterov
from quadsim.optimizers.rmsprop import RMSProp as RMSProp
from quadsim.optimizers.sgd import SGD as SGD
from quadsim.optimizers.signgd import SignGD as SignGD
from quadsim.optimizers.signum import Signum as Signum
from quadsim.optimizers.skip_update import SkipUpdate as SkipUpdate

OPTIMIZERS: dict[str, type[Optimizer]]

def by_name(name: str, **settings: Any) -> Optimizer: ...
