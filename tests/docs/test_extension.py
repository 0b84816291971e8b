"""The Sphinx extension: roles, docstrings as plain text, what fences show."""

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("torch", reason="the reference includes quadsim.hessian")

import quadsim_docs


@pytest.mark.parametrize(
    ("line", "escaped"),
    [
        ("the norm |m| of w_", r"the norm \|m\| of w\_"),
        ("`|m|` and ``w_`` are code", "`|m|` and ``w_`` are code"),
        ("kappa_eff has an underscore inside", "kappa_eff has an underscore inside"),
        ('a scheduler, "tcp://host:8786"', r'a scheduler, "\tcp://host:8786"'),
        (r"\|m\|", r"\|m\|"),
    ],
)
def test_docstrings_are_plain_text(line, escaped):
    lines = [line]
    quadsim_docs.escape_docstring(None, "function", "name", None, None, lines)
    assert lines == [escaped]


def test_examples_are_unchanged():
    lines = ["|a|", "", ">>> x | y", "|b|", "", "|c|"]
    quadsim_docs.escape_docstring(None, "function", "name", None, None, lines)
    assert lines == [r"\|a\|", "", ">>> x | y", "|b|", "", r"\|c\|"]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("solve", "quadsim.solve"),
        ("qs.solve", "quadsim.solve"),
        ("quadsim.solve()", "quadsim.solve"),
        ("theory.floor", "quadsim.theory.floor"),
        ("BlockQuadratic.from_spectra", "quadsim.BlockQuadratic.from_spectra"),
        ("spectra.load", "quadsim.spectra.load"),
        ("rate", None),  # too common a word to stand for theory.rate
        ("kappa=", None),
        ("BlockQuadratic.absent", None),
    ],
)
def test_names_of_the_reference(name, target):
    assert quadsim_docs.resolve(name) == target


PAGE = """# Page

{{fact}}`version_of_the_probe` and {claim} and {{api}}`qs.solve`.

<!-- show: output -->
```python
print("shown below")
```

<!-- not executed: it needs a cluster -->
```sh
sbatch job.sh
```
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A function that builds one page, and returns its HTML and the warnings."""
    import io

    import facts
    import fences
    from sphinx.application import Sphinx

    monkeypatch.setitem(facts.FACTS, "version_of_the_probe", lambda: "32,829 steps")
    facts.text.cache_clear()
    monkeypatch.setattr(fences, "DOCS", tmp_path)
    monkeypatch.setattr(fences, "SHOWN", tmp_path / "_build/shown")

    def run(text):
        (tmp_path / "index.md").write_text(text, encoding="utf-8")
        shown = tmp_path / "_build/shown/index"
        shown.mkdir(parents=True, exist_ok=True)
        (shown / "1.txt").write_text("the output\n", encoding="utf-8")
        settings = {"extensions": ["myst_parser", "sphinx.ext.autodoc", "quadsim_docs"], "exclude_patterns": ["_build"]}
        warnings = io.StringIO()
        out = str(tmp_path / "html")
        Sphinx(str(tmp_path), None, out, out, "html", settings, status=None, warning=warnings).build()
        return (tmp_path / "html/index.html").read_text(encoding="utf-8"), warnings.getvalue()

    yield run
    facts.text.cache_clear()


def test_a_page_shows_facts_outputs_and_reasons(build):
    html, _ = build(PAGE.format(claim="{claim}`2b`"))
    assert "32,829 steps" in html
    assert "the output" in html
    assert "Not executed in the tests: it needs a cluster." in html
    assert "<!-- show" not in html


@pytest.mark.parametrize(
    ("role", "warning"),
    [("{claim}`99z`", "no claim '99z' is in the ledger"), ("{fact}`absent`", "no fact 'absent'")],
)
def test_an_unknown_claim_or_fact_is_a_warning(build, role, warning):
    assert warning in build(PAGE.format(claim=role))[1]
