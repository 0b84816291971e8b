"""Block spectra of real networks. Requires torch (`pip install 'quadsim[torch]'`).

from quadsim import hessian

net = MyNetwork()
measured = hessian.measure(net, lambda: net(x), lambda z: cross_entropy(z, y), blocks=["fc1"], out="mine.npz")
problem = qs.case(1, network="mine.npz", blocks=["fc1"])
"""

from quadsim.hessian.lanczos import Quadrature, quadrature
from quadsim.hessian.measure import measure
from quadsim.hessian.model_zoo import measure_model
from quadsim.hessian.models import MODELS, build
from quadsim.hessian.operators import dense, operator

__all__ = ["MODELS", "Quadrature", "build", "dense", "measure", "measure_model", "operator", "quadrature"]
