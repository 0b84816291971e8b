"""Names read from source files are those of the imported modules."""

import pytest

from quadsim import _discovery, claims, spectra
from quadsim.cli import names
from quadsim.optimizers import OPTIMIZERS
from quadsim.problems import cases
from quadsim.sweeps import axes


def test_names():
    assert names.cases() == tuple(map(str, cases.CASES))
    assert names.optimizers() == tuple(name for name, kind in OPTIMIZERS.items() if not kind.user_defined)
    assert names.spectra() == tuple(spectra.LAWS)
    assert names.networks() == tuple(spectra.library())
    assert sorted(names.claims()) == sorted(claim.id for claim in claims.select())
    assert names.results() == axes.RESULTS


def test_models():
    hessian = pytest.importorskip("quadsim.hessian", reason="torch is not installed", exc_type=ImportError)
    assert names.models() == tuple(hessian.MODELS)


@pytest.mark.parametrize("name", names.optimizers())
def test_settings_of_optimizers(name):
    assert _discovery.settings(name) == tuple(OPTIMIZERS[name]().settings())


def test_settings_of_an_unknown_optimizer():
    assert _discovery.settings("nobody") == ()
