"""Linear algebra of large blocks runs on one BLAS thread, and the user's setting is restored."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import quadsim as qs
from quadsim import _blas


@pytest.fixture
def threads():
    """Two threads for numpy's BLAS, as on a machine with two cores; a getter of the current number."""
    control = _blas.threads_of(_blas.EXTENSIONS[0])
    if control is None:
        pytest.skip("numpy's BLAS is not OpenBLAS")
    get, set_ = control
    before = get()
    set_(2)
    if get() != 2:
        pytest.skip("OpenBLAS was built for one thread")
    yield get
    set_(before)


def test_linear_algebra_of_large_blocks_runs_on_one_thread(threads, monkeypatch):
    seen = {}

    def watched(name):
        original = getattr(np.linalg, name)

        def call(*rest, **options):
            seen.setdefault(name, set()).add(threads())
            return original(*rest, **options)

        monkeypatch.setattr(np.linalg, name, call)

    names = ("qr", "det", "eigh", "eigvalsh", "cholesky", "solve", "svd")
    for name in names:
        watched(name)
    problem = qs.BlockQuadratic.from_spectra([np.linspace(1, 50, 40)], h=np.ones(40))
    qs.BlockQuadratic.from_blocks(problem.blocks)
    qs.exact(problem, qs.GD(), max_steps=10)
    qs.exact(problem, qs.FrozenAdam(), max_steps=10)
    qs.spectra.law("marchenko-pastur", 40)
    assert seen == {name: {1} for name in names}
    assert threads() == 2  # the user's setting


def test_the_blas_of_scipy_is_limited_too(threads, monkeypatch):
    """scipy bundles another BLAS than numpy."""
    lapack = _blas.lapack()
    get, set_ = _blas.threads_of(_blas.EXTENSIONS[1])
    before, seen, original = get(), [], lapack.dgejsv
    set_(2)

    def watched(*rest, **options):
        seen.append(get())
        return original(*rest, **options)

    monkeypatch.setattr(lapack, "dgejsv", watched)
    try:
        problem = qs.BlockQuadratic.from_spectra([np.linspace(1, 50, 40)])
        problem.scaled_eigenvalues(np.ones(40))
        assert (seen, get()) == ([1], 2)
    finally:
        set_(before)


def test_the_setting_is_restored_after_errors_and_concurrent_uses(threads):
    def failing():
        with _blas.one_thread(), _blas.one_thread():
            raise RuntimeError(threads())

    with pytest.raises(RuntimeError, match=r"^1$"):
        failing()
    assert threads() == 2
    both = threading.Barrier(2)

    def nested(_):
        with _blas.one_thread():
            both.wait()
            return threads()

    with ThreadPoolExecutor(2) as pool:  # the last of concurrent uses restores it
        assert list(pool.map(nested, range(2))) == [1, 1]
    assert threads() == 2


@pytest.mark.parametrize("count", [1, 2])
def test_bits_do_not_depend_on_the_number_of_threads(threads, count):
    with _blas.one_thread():
        expected = qs.BlockQuadratic.from_spectra([np.linspace(1, 5000, 700)])
        vectors = np.linalg.eigh(expected.blocks[0])[1]
    _blas.threads_of(_blas.EXTENSIONS[0])[1](count)
    problem = qs.BlockQuadratic.from_spectra([np.linspace(1, 5000, 700)])
    assert (problem.blocks[0] == expected.blocks[0]).all()
    assert (problem.eigenvectors[0] == vectors).all()


def test_nothing_is_done_without_openblas(monkeypatch):
    monkeypatch.setattr(_blas, "threads_of", lambda extension: None)
    with _blas.one_thread():
        assert np.linalg.eigvalsh(np.eye(2)).tolist() == [1, 1]


LAPACK_ALONE = """
import sys
from quadsim import _blas
lapack = _blas.lapack()
assert ("scipy.linalg" in sys.modules) == {imported}
assert _blas.threads_of(_blas.LAPACK) is not None or not {openblas}
import scipy.linalg.lapack
assert scipy.linalg.lapack.dgejsv is lapack.dgejsv
assert scipy.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).round(12).tolist() == [1, 3]
"""


@pytest.mark.parametrize("suffixes", [None, [".none"]], ids=["alone", "with scipy.linalg"])
def test_lapack_loads_without_the_rest_of_scipy(suffixes):
    """If the extension module is not found, `scipy.linalg` is imported; both give the same functions."""
    openblas = _blas.threads_of(_blas.EXTENSIONS[0]) is not None
    code = LAPACK_ALONE.format(imported=suffixes is not None, openblas=openblas)
    if suffixes:
        code = code.replace("lapack = _blas", f"_blas.EXTENSION_SUFFIXES = {suffixes}\nlapack = _blas", 1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
