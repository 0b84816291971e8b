"""Every object that a user can get has a short repr and, if it shows itself in notebooks, safe and small HTML.

The objects are found by program: all public functions are called, and attributes, properties and methods of what they
return are followed. A new public function without an example of its arguments fails the test.
"""

import copy
import dataclasses
import doctest
import functools
import inspect
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import quadsim as qs
from quadsim._display import html, text
from quadsim._validation import InputError
from quadsim.engine.closed_form.exact import exact
from quadsim.optimizers import OPTIMIZERS

MAX_LINES = 6
HOSTILE = "<script>alert('1')</script>\"&\n\x1b[31m" + "x" * 200
PROBLEM = qs.case(3)
BLOCK = PROBLEM.blocks[0]
ARGUMENTS = {  # of public functions and methods, by the name of the parameter
    "angle": 0.5, "at": [1, 10, 100], "beta2": 0.99, "block": BLOCK, "blocks": 3, "case": 3, "curvature": 2.0,
    "diagonal": np.ones(9), "dim": 9, "eigenvalues": [[1, 2], [3]], "eps": 0.1, "error": np.ones(9), "given": 1.0,
    "heterogeneity": 0.5, "kappa": 100.0, "kind": 3, "lr": 0.01, "method": "gd", "name": "gpt2", "number": 0,
    "optimizer": qs.GD(), "optimizers": [qs.GD(), qs.BlockGD()], "path": None, "point": np.ones(9), "problem": PROBLEM,
    "ratio": 2.0, "s": np.ones(3), "seed": 3, "size": 9, "spectra": [[1, 2], [3]], "value": 1.0, "vector": np.ones(9),
    "w": np.ones(9), "x": 50.0, "symmetric": True, "used": qs.GD(lr=1e-4), "g": np.ones(9), "first": 1, "last": 5,
    "max_steps": 5,
}  # fmt: skip
MEASURED = qs.spectra.load("gpt2")
QUERY = MEASURED.block("layer3.query")
RESULT = qs.compare(PROBLEM, [qs.GD(), qs.BlockGD()], seed=range(2), max_steps=20, lrs=[1e-5, 1e-4])
OWN_ARGUMENTS = {  # of functions for which those above do not fit
    "BlockQuadratic.block": {},
    "Measured.block": {"name": "layer3.query"},
    "case": {"number": 3},
    "case_spectra": {"number": 3},
    "arrangement": {"parts": [np.array([1.0, 2.0]), np.array([3.0])]},
    "arrangements": {"eigenvalues": range(1, 10)},
    "compare": {"seed": range(2), "max_steps": 20, "lrs": [1e-5, 1e-4]},
    "cycle_multipliers": {"s": np.array([1.0, -1.0, 1.0])},
    "cycle_spectrum": {"s": np.array([1.0, -1.0, 1.0])},
    "density": {"block": QUERY, "grid": [0.0, 0.01]},
    "eigenvalue_distance": {"blocks": [[1.0, 2.0], [3.0]]},
    "gradient_ratio_law": {"block": np.array([[2.0, 1.0], [1.0, 2.0]])},
    "grid": {"blocks": [QUERY]},
    "index": {"heterogeneity": 0.5},
    "js_distance": {"one": QUERY, "other": MEASURED.block("layer3.key")},
    "js_matrix": {"measured": MEASURED, "blocks": ["layer3.query", "layer3.key"]},
    "law": {"name": "log-uniform"},
    "load": {"name": "gpt2"},
    "partition": {"eigenvalues": range(1, 10)},
    "probe_distance": {"block": QUERY},
    "performance_profile": {"comparisons": [RESULT]},
    "problem": {"case": 3},
    "range": {"heterogeneity": 0.5},
    "rescale": {"kappa": 10.0},
    "sample": {"block": QUERY},
    "sample_blocks": {"measured": MEASURED, "blocks": ["layer3.query"]},
    "solve": {"seed": range(3), "optimizer": [qs.GD(), qs.FrozenAdam()], "max_steps": 50},
    "sweep": {"case": 3, "optimizers": ["gd"], "max_steps": 10},
    "tune": {"seed": [3], "max_steps": 20, "grid": [1e-5, 1e-4]},
    "unit_of": {"block": QUERY, "scale": "raw"},
    "zipf_gd_time": {"eps": 0.2},
    "zipf_sign_best_lr": {"at": 10},
    "zipf_sign_time": {"dim": 1000, "eps": 0.5},
}
TABLE_FUNCTIONS = ("summary", "curves", "quartiles", "bands", "rows")
NOT_CALLED = {  # these do not return an object to show, or need a file or a function in one
    "rule", "read_csv", "cell", "plot", "check", "hvp", "split", "score", "runs", "kernel_scales", "kernel_scale",
    "once_per_step", "factors", "units", "count",
}  # fmt: skip


def is_own(value):
    return type(value).__module__.split(".")[0] == "quadsim" and not isinstance(value, type)


def parameters(function):
    return [
        item.name
        for item in inspect.signature(function).parameters.values()
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def call_of(function, name):
    """The call of a public function with the example arguments; missing examples fail."""
    given = OWN_ARGUMENTS.get(name, {})
    missing = [one for one in parameters(function) if one not in given and one not in ARGUMENTS]
    assert missing == [], f"{name} needs examples of {missing} in this file"
    start = {"e0": np.ones(9)} if "e0" in inspect.signature(function).parameters and not given else {}
    arguments = {**{one: ARGUMENTS[one] for one in parameters(function) if one not in given}, **start, **given}
    return functools.partial(function, **arguments)


def public_functions():
    modules = [qs, qs.theory, qs.spectra]
    for module in modules:
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and inspect.isfunction(value) and name not in NOT_CALLED:
                yield name, value


@functools.cache
def reachable():
    """One object of each class of this package that users can get, by the name of the class."""
    found, waiting = {}, [call_of(function, name)() for name, function in public_functions()]
    waiting += [qs.Noise(batch=3), qs.Schedule("cosine"), *(kind() for kind in OPTIMIZERS.values())]
    waiting += [qs.BlockQuadratic.from_spectra([[1, 2], [3]]), qs.theory.sdp_value(PROBLEM)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += list(value.values())[:3]
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and not is_own(value):
            waiting += list(value)[:3]
        if not is_own(value) or type(value).__name__ in found:
            continue
        found[type(value).__name__] = value
        if isinstance(value, Sequence):
            waiting += list(value)[:3]
        for name in dir(value):
            if not name.startswith("_") and name not in NOT_CALLED:
                waiting.append(attribute(value, name))
    return found


def attribute(value, name):
    """An attribute, or what a method returns for the example arguments; None if they do not suit this object."""
    try:
        one = getattr(value, name)
    except InputError:
        return None
    if not isinstance(one, types.MethodType) or isinstance(one.__self__, type):
        return None if callable(one) else one
    call = call_of(one, f"{type(value).__name__}.{name}")
    try:
        return call()
    except (ValueError, TypeError, AttributeError, AssertionError):
        return None


KNOWN = {"BlockQuadratic", "Runs", "Trajectory", "Status", "Comparison", "Tuned", "EvaluationProtocol", "Measured",
         "MeasuredBlock", "Distances", "Arrangements", "FloorBounds", "SDPValue", "Noise", "Schedule", "Recurrence",
         "GD", "Adam", "Gaussian"}  # fmt: skip
NAMES = sorted((KNOWN - {"Gaussian"}) | {kind.__name__ for kind in OPTIMIZERS.values() if not kind.user_defined})


def test_the_walk_finds_every_kind_of_object():
    assert set(NAMES) <= set(reachable())
    assert set(reachable()) - set(NAMES) <= {"Gaussian"}, "a new kind of object: add its name"


def check_repr(value, lines=MAX_LINES):
    shown = repr(value)
    assert 0 < len(shown) <= 300
    assert shown.count("\n") < lines
    assert "array(" not in shown
    assert not re.search(r"0x[0-9a-f]{6}| object at ", shown)
    assert shown.replace("\n", "").isprintable()
    return shown


class Checker(HTMLParser):
    """Raises if tags are not nested, and collects them."""

    VOID = frozenset({"path", "circle", "polyline", "br"})

    def __init__(self, content):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in self.VOID
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


ALLOWED = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "svg", "path", "circle", "polyline", "text"}


def check_html(value):
    content = value._repr_html_()
    assert 0 < len(content.encode()) < 50_000
    checker = Checker(content)
    assert set(checker.tags) <= ALLOWED
    for name, given in checker.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "src", "xlink:href")
        assert "url(" not in (given or "")
    assert "nan" not in re.sub(r"[^ ,\"]*[a-z]nan|nan[a-z]+", "", content), "a coordinate is not a number"
    return content, checker.tags


@pytest.mark.parametrize("name", NAMES)
def test_every_object_has_a_short_repr(name):
    check_repr(reachable()[name])


@pytest.mark.parametrize("name", NAMES)
def test_html_is_well_formed_and_small(name):
    value = reachable()[name]
    if hasattr(value, "_repr_html_"):
        check_html(value)


def test_the_objects_with_html():
    with_html = {name for name in NAMES if hasattr(reachable()[name], "_repr_html_")}
    assert with_html == {
        *("BlockQuadratic", "Runs", "Trajectory", "Comparison", "Tuned", "Measured", "MeasuredBlock", "Distances")
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_arrays_or_tables_has_a_frame(name):
    value = reachable()[name]
    fields = (
        {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        if dataclasses.is_dataclass(value)
        else {}
    )
    holds = any(isinstance(one, np.ndarray | pd.DataFrame) for one in fields.values())
    if name in ("Recurrence", "EvaluationProtocol"):  # settings
        assert not hasattr(value, "to_frame")
    elif holds or hasattr(value, "_repr_html_") or name in ("Arrangements", "FloorBounds"):
        frame = value.to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) > 0


@pytest.mark.parametrize("name", NAMES)
def test_objects_survive_pickling_and_copying(name):
    value = reachable()[name]
    assert repr(pickle.loads(pickle.dumps(value))) == repr(value)
    assert repr(copy.deepcopy(value)) == repr(value)


def test_the_check_of_reprs_can_fail():
    for bad in (np.arange(3), object(), [0.1] * 300):
        with pytest.raises(AssertionError):
            check_repr(bad)


@pytest.mark.parametrize(
    "content", ["<div><b>x</div>", "<div onclick='x'></div>", "<script>x</script>", "<svg width='nan'/>"]
)
def test_the_check_of_html_can_fail(content):
    with pytest.raises(AssertionError):
        check_html(types.SimpleNamespace(_repr_html_=lambda: content))


# ---- texts that can be evaluated


@pytest.mark.parametrize(
    "value",
    [
        *(kind() for kind in OPTIMIZERS.values() if not kind.user_defined),
        qs.Adam(lr=0.1, beta2=0.99),
        qs.Adam(init="gradient", beta1=0.0),
        qs.BlockGD(lr=[0.1, 0.2]),
        qs.Nesterov(lr=1e-300),
        *(qs.Schedule(kind) for kind in ("constant", "cosine", "linear", "sqrt", "step")),
        qs.Schedule("cosine", warmup=0),
        qs.Schedule("step", warmup=10, every=0.2, drop=0.5),
        qs.Schedule(warmup=3),
        qs.Noise(),
        qs.Noise(batch=3, factor="rotated"),
        qs.Noise("labels", scale=0.0),
        qs.Noise("gaussian+labels", scale=(0.1, 2), batch=1),
    ],
    ids=repr,
)
def test_settings_can_be_evaluated(value):
    assert eval(repr(value), vars(qs) | {name: getattr(qs, name) for name in qs.__all__}) == value


def test_only_settings_that_differ_are_shown():
    assert repr(qs.Adam(lr=0.1, beta2=0.99)) == "Adam(lr=0.1, beta2=0.99)"
    assert repr(qs.GD()) == "GD()"
    assert repr(qs.Schedule("cosine", warmup=0.05)) == "Schedule('cosine', warmup=0.05)"
    assert repr(qs.Noise("gaussian", scale=0.1)) == "Noise('gaussian', scale=0.1)"


def test_a_shortened_tuple_does_not_evaluate_to_another_optimizer():
    shown = check_repr(qs.BlockGD(lr=np.arange(1.0, 2000.0)))
    assert shown == "BlockGD(lr=(1.0, 2.0, 3.0, ..., 1999.0))"
    with pytest.raises(InputError):
        eval(shown, {"BlockGD": qs.BlockGD})


def test_a_subclass_keeps_its_own_repr():
    @dataclasses.dataclass(frozen=True)
    class Named(qs.GD):
        def __repr__(self):
            return "named"

    @dataclasses.dataclass(frozen=True)
    class Child(Named):
        pass

    assert (repr(Named()), repr(Child())) == ("named", "named")


# ---- awkward contents


def problem_of(sizes, name="own", kappa=1e3):
    rng = np.random.default_rng(0)
    return qs.BlockQuadratic.from_spectra(
        [np.exp(rng.uniform(0, np.log(kappa), n)) for n in sizes], rotation=0, name=name
    )


@pytest.mark.parametrize("sizes", [[1], [9], [1] * 60, [1, 2, 30], [2048] * 16, [1] * 2048])
def test_problems_of_any_size(sizes):
    problem = problem_of(sizes)
    check_repr(problem)
    content, tags = check_html(problem)
    assert "svg" in tags
    assert f"{len(sizes):,} of size" in content
    assert len(problem.to_frame()) == sum(sizes)


@functools.cache
def runs():
    return qs.solve(PROBLEM, [qs.GD(), qs.Adam(lr=0.1), qs.BlockGD()], seed=range(4), max_steps=500)


@pytest.mark.parametrize("count", [0, 1, 3, 12, 2048])
def test_runs_of_any_number(count):
    several = qs.Runs((runs().trajectories * (count // 12 + 1))[:count])
    check_repr(several)
    _, tags = check_html(several)
    assert ("svg" in tags) == (count > 0)
    assert several.to_frame()["lane"].nunique() == count
    if count == 2048:
        assert "2,038 more" in several._repr_html_()


def awkward_runs():
    start = {"e0": np.zeros(9)}
    return {
        "diverged": qs.solve(PROBLEM, qs.GD(lr=10.0)),
        "diverged at once": qs.solve(PROBLEM, qs.Adam(lr=1e200)),
        "at the minimizer": qs.solve(PROBLEM, qs.GD(), **start),
        "no step": qs.solve(PROBLEM, qs.Adam(lr=0.1), max_steps=0),
        "underflow": qs.solve(PROBLEM, qs.Adam(lr=1e-3, beta2=1 - 1e-12, beta1=0.0), tol=0, max_steps=100_000),
        "far below float64": exact(PROBLEM, qs.GD(), at=[10**6, 10**12]),
        "one point": exact(PROBLEM, qs.GD(), at=[5]),
        "no finite point": exact(PROBLEM, qs.GD(lr=1.0), at=[10**6]),
        "noise and schedule": qs.solve(
            PROBLEM, qs.SGD(lr=1e-4), noise=qs.Noise(batch=3), schedule="cosine", max_steps=50
        ),
    }


def test_runs_that_ended_in_any_way():
    made = awkward_runs()
    for run in [*made.values(), qs.Runs(tuple(made.values()))]:
        check_repr(run)
        check_html(run)
    assert "diverged at step" in repr(made["diverged"])
    assert "e-173717796" in repr(made["far below float64"])
    assert made["no finite point"].to_frame().empty
    assert "Noise(batch=3)" in made["noise and schedule"]._repr_html_().replace("&#x27;", "'")


def test_relative_norms_refer_to_step_0():
    every = qs.solve(PROBLEM, qs.GD(), max_steps=100, record=1)
    some = exact(PROBLEM, qs.GD(), at=[10, 100])
    np.testing.assert_allclose(some.relative, every.relative[[10, 100]], rtol=1e-12)
    np.testing.assert_allclose(some.to_frame()["relative"], some.grad_norm / every.grad_norm[0], rtol=1e-12)
    assert every.relative[0] == 1
    assert some.first_grad_norm == pytest.approx(np.linalg.norm(PROBLEM.grad(every.w0)), rel=1e-12)


def test_names_are_escaped_and_shortened():
    problem = problem_of([2, 1], name=HOSTILE)
    run = qs.solve(problem, qs.GD(), max_steps=10)
    tuned = qs.tune(problem, qs.GD(), seed=[0], max_steps=5, grid=[1e-4, 1e-3])
    result = qs.compare(problem, {HOSTILE: qs.GD(), "b": qs.FrozenAdam()}, seed=range(2), max_steps=5, lrs=[1e-4, 1e-3])
    block = qs.spectra.files.exact(HOSTILE, [1.0, 2.0, -3.0])
    measured = qs.spectra.Measured(HOSTILE, {HOSTILE: block, "b": block}, {})
    distances = qs.spectra.Distances((HOSTILE, "b"), np.eye(2), 0.5, (None, 0.1))
    for value in (problem, run, qs.Runs((run, run)), tuned, result, block, measured, distances):
        check_repr(value)
        content, _ = check_html(value)
        assert "alert(" not in content or "&lt;script" in content
        assert "\x1b" not in content
        assert "x" * 100 not in content


def test_colours_are_checked():
    class Loud(qs.GD):
        colour = '"/><script>'

    run = dataclasses.replace(runs()[0], optimizer=Loud(lr=0.1))
    content, _ = check_html(run)
    assert "script" not in content
    assert html.colour("#0072B2") == "#0072B2"


def test_comparisons_with_many_optimizers_and_failures():
    many = {f"optimizer-{k}": qs.GD() for k in range(12)}
    grids = {name: [10.0 ** (k % 3 * 4 - 4)] for k, name in enumerate(many)}  # every third one diverges at once
    result = qs.compare(PROBLEM, many, seed=range(6), max_steps=20, grids=grids)
    shown = check_repr(result, lines=20)
    assert "more" in shown
    content, tags = check_html(result)
    assert tags.count("tr") == 13
    assert "diverged" in content


def test_tuned_that_failed_or_was_given():
    for grid in ([5.0, 10.0], [1e-4]):
        tuned = qs.tune(PROBLEM, qs.GD(), seed=range(2), max_steps=100, grid=grid)
        assert ("failed" in check_repr(tuned)) == (len(grid) > 1)
        assert ("given" in repr(tuned)) == (len(grid) == 1)
        check_html(tuned)
        assert list(tuned.to_frame().columns[:4]) == ["problem", "optimizer", "label", "lr"]


def test_measured_blocks_of_zeros():
    zeros = qs.spectra.files.exact("zeros", [0.0, 0.0])
    for value in (zeros, qs.spectra.Measured("own", {"zeros": zeros}, {"finished": False})):
        check_repr(value)
        _, tags = check_html(value)
        assert "svg" not in tags
    assert "unfinished" in repr(value)


# ---- tables


def test_frames_hold_the_numbers():
    run = runs()[1]
    pd.testing.assert_frame_equal(run.to_frame(), qs.table.curves([run]))
    pd.testing.assert_frame_equal(runs().to_frame(), qs.table.curves(list(runs())))
    problem = problem_of([2, 3])
    frame = problem.to_frame()
    for number, values in enumerate(problem.eigenvalues):
        assert frame.loc[frame["block"] == number, "eigenvalue"].tolist() == values.tolist()
    frame = MEASURED.to_frame()
    ours = frame[(frame["block"] == "layer3.query") & (frame["probe"] == 1)]
    assert ours["eigenvalue"].tolist() == QUERY.nodes[1].tolist()
    assert ours["weight"].tolist() == QUERY.weights[1].tolist()
    distances = qs.spectra.js_matrix(MEASURED, ["layer3.query", "layer3.key"])
    table = distances.to_frame().pivot(index="block", columns="other", values="distance")
    assert table.loc["layer3.query", "layer3.key"] == distances.matrix[0, 1]
    assert table.loc["layer3.key", "layer3.key"] == distances.noise[1]


def test_a_comparison_gives_a_copy():
    result = reachable()["Comparison"]
    frame = result.to_frame()
    frame["lr"] = 0
    assert (result.summary["lr"] != 0).all()


def test_slices_of_runs_are_runs():
    assert isinstance(runs()[1:3], qs.Runs)
    assert runs()[1:3][0] is runs()[1]
    assert len(runs()[::-1]) == len(runs())
    assert runs()[::-1][0] is runs()[-1]
    assert runs()[5:5].to_frame().columns.tolist() == runs().to_frame().columns.tolist()
    with pytest.raises(IndexError):
        runs()[99]


# ---- what a session sees


@pytest.mark.parametrize(
    "module", [qs, qs.theory, qs.spectra, qs.plots, qs.optimizers, qs.table], ids=lambda m: m.__name__
)
def test_dir_lists_public_names_only(module):
    names = [name for name in dir(module) if not (name.startswith("__") and name.endswith("__"))]
    assert len(names) > 5
    for name in names:
        assert not name.startswith("_")
        value = getattr(module, name)
        assert module is qs or not isinstance(value, types.ModuleType), name
        assert getattr(value, "__module__", "quadsim").split(".")[0] in ("quadsim", "builtins", "types", "typing"), name
    assert not {"annotations", "np", "pd", "Any", "TYPE_CHECKING", "importlib", "time", "sys", "os"} & set(names)


def test_dir_of_the_package_is_its_exports():
    assert {name for name in dir(qs) if not name.startswith("_")} == set(qs.__all__)
    assert {"__doc__", "__version__"} <= set(dir(qs))


def test_every_public_name_of_theory_and_spectra_is_listed():
    """The names that a module imports from its submodules, by its text."""
    import ast
    from pathlib import Path

    for module in (qs.theory, qs.spectra):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(module.__name__)
            for alias in node.names
        }
        assert imported == {name for name in dir(module) if not name.startswith("__")}


def test_a_repr_loads_neither_matplotlib_nor_pandas():
    code = (
        "import sys, quadsim as qs; p = qs.case(3); r = qs.solve(p, [qs.GD(), qs.FrozenAdam()]);"
        "m = qs.spectra.load('gpt2');"
        "[(repr(x), x._repr_html_()) for x in (p, r, r[0], m)]; repr(qs.Adam());"
        "print([name for name in ('matplotlib', 'pandas', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


PUBLIC = [getattr(module, name) for module in (qs, qs.spectra, qs.theory) for name in dir(module)]
METHODS = [
    getattr(kind, name)
    for kind in PUBLIC
    for name in ("to_frame", "plot")
    if isinstance(kind, type) and name in vars(kind)
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_methods_are_documented_with_an_example_that_runs(method):
    documented = inspect.getdoc(method)
    assert "Returns\n-------" in documented
    assert ("Parameters\n----------" in documented) == (method.__name__ == "plot")
    test = doctest.DocTestParser().get_doctest(documented, {"qs": qs}, method.__qualname__, None, None)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_numbers_outside_float64():
    assert text.from_log(float("-inf")) == "0"
    assert text.from_log(-1e6) == "3.30e-434295"
    assert text.from_log(np.log(0.00123)) == "0.00123"
    assert text.from_log(float("inf")) == "inf"
