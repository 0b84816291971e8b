"""Every public name has a numpydoc docstring whose examples run; see `docstrings` for what is checked."""

import dataclasses
import doctest
import inspect

import docstrings
import matplotlib.pyplot as plt
import numpy as np
import pytest

import quadsim as qs
from quadsim.optimizers import OPTIMIZERS

OBJECTS, CONSTANTS = docstrings.documented()
# Their examples compile kernels that no other default test needs. Other optimizers have closed forms.
COMPILED = {f"quadsim.{kind.__name__}" for kind in OPTIMIZERS.values() if not kind.has_closed_form()}
SLOW = COMPILED - {"quadsim.Adam"} | {"quadsim.Noise", "quadsim.Schedule", "quadsim.rule"}


def with_examples():
    for name in OBJECTS:
        if ">>> " in docstrings.docstring(name):
            yield pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("name", OBJECTS)
def test_a_docstring_is_complete(name):
    assert list(docstrings.complaints(OBJECTS[name], docstrings.docstring(name))) == []


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_has_a_comment(name):
    assert docstrings.is_annotated(name)


def failures_of(name, text):
    """The report of the examples in a docstring; empty if all of them print what they should."""
    test = doctest.DocTestParser().get_doctest(text, {"qs": qs, "np": np}, name, None, None)
    report = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return "".join(report)


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples_run(name, tmp_path, monkeypatch, forgotten):
    monkeypatch.chdir(tmp_path)
    try:
        report = failures_of(name, docstrings.docstring(name))
    finally:
        plt.close("all")
    assert report == ""


def test_no_example_is_left_out():
    """Every example in the package is one of a public object, and so it is run."""
    checked = {docstrings.docstring(name) for name in OBJECTS}
    assert [place for place, text in docstrings.docstrings_with_examples() if text not in checked] == []


def test_a_docstring_has_the_sections_that_numpydoc_knows():
    docscrape = pytest.importorskip("numpydoc.docscrape")
    for name in OBJECTS:
        docscrape.NumpyDocString(docstrings.docstring(name))  # raises or warns about an unknown section
        assert "Attributes of the class" not in docstrings.sections(docstrings.docstring(name))


# ---- optimizers


@pytest.mark.parametrize("kind", [kind for kind in OPTIMIZERS.values() if not kind.user_defined])
def test_the_docstring_of_an_optimizer_agrees_with_its_class(kind):
    """It opens with the formula; its invariances and its reference are the attributes of the class."""
    found = docstrings.sections(inspect.getdoc(kind))
    first = found["Summary"].split("\n")[0]
    assert first.startswith("w")
    assert any(arrow in first for arrow in ("←", "₊ ="))
    *others, last = kind.invariances
    listed = f"{', '.join(others)} and {last}" if others else last
    assert f"Invariant under {listed}." in found["Notes"]
    assert found["References"].strip() == kind.reference
    assert set(docstrings.entries(found["Parameters"])) == {field.name for field in dataclasses.fields(kind)}


# ---- the checks fail where they should

COMPLETE = """Add two numbers.

Parameters
----------
a, b : float
*rest : float
    More numbers.

Returns
-------
float

Examples
--------
>>> 1 + 2
3
"""


def added(a: float, b: float, *rest: float) -> float:
    return a + b + sum(rest)


def complaints_of(text):
    return list(docstrings.complaints(added, text))


def test_a_complete_docstring_has_no_complaints():
    assert complaints_of(COMPLETE) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("Add two numbers.", "", "no summary"),
        ("Add two numbers.", "Add two numbers", "no summary"),
        ("a, b : float", "a : float", "parameter b is not described"),
        ("a, b : float", "a, b, c : float", "c is described and not a parameter"),
        ("*rest : float\n    More numbers.\n", "", "parameter rest is not described"),
        ("Returns\n-------\nfloat\n", "", "no section Returns"),
        (">>> 1 + 2\n3\n", "None.\n", "no section Examples"),
        (">>> 1 + 2", ">>> 1 + 2  # doctest: +SKIP", "an example is skipped"),
    ],
)
def test_an_incomplete_docstring_has_complaints(old, new, complaint):
    assert old in COMPLETE
    (only,) = complaints_of(COMPLETE.replace(old, new))
    assert complaint in only


def test_a_wrong_example_fails():
    assert failures_of("right", COMPLETE) == ""
    assert "Expected:\n    4" in failures_of("wrong", COMPLETE.replace("\n3\n", "\n4\n"))


def test_a_constant_without_a_comment_is_found():
    assert docstrings.is_annotated("quadsim.spectra.SIGMA")
    assert not docstrings.is_annotated("quadsim.spectra.distance.SCALES")
