"""The public names with their types, generated from `__init__.py`: python tests/test_types.py"""

from quadsim import optimizers as optimizers
from quadsim import plots as plots
from quadsim import spectra as spectra
from quadsim import theory as theory
from quadsim.comparison.paired import Comparison as Comparison
from quadsim.comparison.paired import compare as compare
from quadsim.comparison.profiles import performance_profile as performance_profile
from quadsim.comparison.tuning import Tuned as Tuned
from quadsim.comparison.tuning import tune as tune
from quadsim.engine import table as table
from quadsim.engine.closed_form.exact import exact as exact
from quadsim.engine.solver import solve as solve
from quadsim.engine.trajectory import Runs as Runs
from quadsim.engine.trajectory import Status as Status
from quadsim.engine.trajectory import Trajectory as Trajectory
from quadsim.optimizers import Optimizer as Optimizer
from quadsim.optimizers.adagrad import AdaGrad as AdaGrad
from quadsim.optimizers.adam import Adam as Adam
from quadsim.optimizers.adam_mini import AdamMini as AdamMini
from quadsim.optimizers.adam_variance import AdamVariance as AdamVariance
from quadsim.optimizers.adamw import AdamW as AdamW
from quadsim.optimizers.adasgd import AdaSGD as AdaSGD
from quadsim.optimizers.amsgrad import AMSGrad as AMSGrad
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
from quadsim.optimizers.schedules import Schedule as Schedule
from quadsim.optimizers.sgd import SGD as SGD
from quadsim.optimizers.signgd import SignGD as SignGD
from quadsim.optimizers.signum import Signum as Signum
from quadsim.optimizers.skip_update import SkipUpdate as SkipUpdate
from quadsim.optimizers.user_rules import rule as rule
from quadsim.problems.block_quadratic import BlockQuadratic as BlockQuadratic
from quadsim.problems.build import problem as problem
from quadsim.problems.cases import case as case
from quadsim.problems.cases import case_spectra as case_spectra
from quadsim.problems.noise import Noise as Noise
from quadsim.spectra import partition as partition
from quadsim.sweeps.runner import sweep as sweep

__version__: str
_LOAD_TIME: int
