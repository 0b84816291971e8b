"""The generated pages are complete, and the glossary has the words that quadsim uses."""

import inspect
import re
import subprocess

import facts
import fences
import generate
import markdown
import pages_architecture
import pages_cli
import pages_gallery
import pages_ledger
import pages_optimizers
import pytest

import quadsim
from quadsim import keys
from quadsim.claims.ledger import LEDGER
from quadsim.cli import help_text
from quadsim.optimizers import OPTIMIZERS
from quadsim.reproduce.records import VERDICTS, read_records

GLOSSARY = (fences.DOCS / "reference/glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^(\w.*)$", GLOSSARY.partition("{glossary}\n")[2].rpartition("```")[0], re.MULTILINE)


def test_every_key_has_an_entry():
    page = pages_cli.keys_page()
    assert re.findall(r"^### (\S+)$", page, re.MULTILINE) == [
        key.name for group in pages_cli.GROUPS for key in keys.TABLE if key.group == group
    ]
    assert {key.name for key in keys.TABLE} == set(re.findall(r"^### (\S+)$", page, re.MULTILINE))
    assert len(set(map(pages_cli.anchor, keys.KEYS))) == len(keys.KEYS)


def test_every_command_has_an_entry_with_its_own_keys():
    page = pages_cli.commands_page()
    modules = pages_cli.command_modules()
    assert re.findall(r"^## (\S+)$", page, re.MULTILINE) == list(help_text.commands())
    for name, module in modules.items():
        entry = pages_cli.command_entry(name, module)
        for key in module.KEYS.values():
            assert f"`{key.name}=" in entry or f"[{key.name}](#{pages_cli.anchor(key.name)})" in entry


def test_every_kind_of_key_is_described():
    every = [key for module in pages_cli.command_modules().values() for key in module.KEYS.values()]
    assert {key.kind for key in every} == set(pages_cli.KINDS)


def test_every_optimizer_has_an_entry_with_its_settings():
    page = pages_optimizers.pages()["reference/optimizers.md"]
    built_in = {name: kind for name, kind in OPTIMIZERS.items() if not kind.user_defined}
    assert sorted(re.findall(r"^### (\S+)$", page, re.MULTILINE)) == sorted(built_in)
    for name, kind in built_in.items():
        entry = pages_optimizers.entry(name, kind)
        for setting in inspect.signature(kind).parameters:
            assert f"`{name}.{setting}`" in entry
        assert markdown.escape(kind.reference) in entry


def test_descriptions_of_settings_are_read_from_the_docstring():
    class Probe:
        """Step.

        Parameters
        ----------
        lr : float
            The learning
            rate. By default the best one.
        a, b : float
            Both.

        Examples
        --------
        no : setting
            here
        """

    assert pages_optimizers.descriptions(Probe) == {"lr": "The learning rate.", "a": "Both.", "b": "Both."}


def test_every_claim_has_one_entry_and_is_listed_by_status():
    made = pages_ledger.pages()
    entries = [
        claim
        for name, text in made.items()
        if "section-" in name
        for claim in re.findall(r"^\(claim-(\S+)\)=$", text, re.MULTILINE)
    ]
    assert sorted(entries) == sorted(LEDGER)
    assert sorted(re.findall(r"^- \[(\S+)\]", made["explanation/ledger/status.md"], re.MULTILINE)) == sorted(LEDGER)
    assert {claim.status for claim in LEDGER.values()} == set(pages_ledger.STATUSES)


def test_every_verdict_is_in_the_table():
    page = pages_ledger.verdicts()
    checks = [check for record in read_records(facts.FIGURES) for check in record["checks"]]
    assert len(re.findall(r"^\| \[", page, re.MULTILINE)) == len(checks) > 0
    for check in checks:
        assert markdown.escape(check["measured"]) in page


def test_every_figure_is_in_the_gallery_with_a_command():
    page = pages_gallery.pages()["gallery.md"]
    shown = re.findall(r"\]\(\.\./figures/(.+)\.(?:svg|png)\)", page)
    assert sorted(shown) == sorted(path.stem for path in facts.FIGURES.glob("*.svg"))
    for name in shown:
        entry = page.partition(f"(figure-{name})=")[2].partition("\n(figure-")[0]
        assert re.search(r"```text\npython (-m quadsim|experiments/\w+\.py)", entry)
        assert all((fences.ROOT / file).is_file() for file in re.findall(r"`(figures/[^`]+)`", entry))


def test_scripts_named_in_the_gallery_exist():
    page = pages_gallery.pages()["gallery.md"]
    scripts = set(re.findall(r"^python (experiments/\w+\.py)", page, re.MULTILINE))
    assert scripts
    assert all((fences.ROOT / script).is_file() for script in scripts)


def test_the_picture_shows_every_package():
    packages = {path.parent.name for path in pages_architecture.PACKAGE.glob("*/__init__.py")}
    assert {name for name in packages if not name.startswith("_")} == pages_architecture.LAYOUT.keys() - {"keys"}
    assert set(pages_architecture.PASSED) <= set(pages_architecture.arrows())


def test_the_arrows_of_the_picture_imply_all_imports():
    arrows = pages_architecture.arrows()
    above = {name: {used for used, user in arrows if user == name} for name in pages_architecture.LAYOUT}

    def reached(name):
        return above[name].union(*(reached(used) for used in above[name]))

    for name in pages_architecture.LAYOUT:
        assert pages_architecture.imports(name) <= reached(name)


def test_generated_files_are_ignored_by_git():
    made = generate.pages(without=["pages_api"])  # which needs torch
    inside = subprocess.run(["git", "-C", fences.ROOT, "rev-parse"], capture_output=True)
    if inside.returncode:
        pytest.skip("this is no git checkout")
    paths = [fences.DOCS / name for name in made]
    assert generate.ignored(paths) == set(map(str, paths))
    assert not generate.ignored([fences.DOCS / "index.md", fences.DOCS / "reference/glossary.md"])


def test_the_api_has_every_public_name():
    pytest.importorskip("torch", reason="quadsim.hessian requires torch")
    pages_api = pytest.importorskip("pages_api")
    made = pages_api.pages()
    text = "\n".join(made.values())
    for name in quadsim.__all__:
        value = getattr(quadsim, name)
        expected = f".. py:module:: quadsim.{name}" if inspect.ismodule(value) else f":: quadsim.{name}\n"
        assert expected in text, name
    for path in pages_api.documented():
        assert len(re.findall(rf"^\.\. auto(?:class|function):: {re.escape(path)}$", text, re.MULTILINE)) == 1
    listed = {*re.findall(r"<(api/\S+)>", made["reference/api.md"]), "api/extending"}
    assert {f"reference/{name}.rst" for name in listed} == made.keys() - {"reference/api.md"}


def test_the_glossary_is_sorted_and_each_term_defined_once():
    assert sorted(TERMS, key=str.lower) == TERMS
    assert len(set(TERMS)) == len(TERMS) > 20


def test_the_glossary_has_statuses_and_verdicts():
    assert {claim.status for claim in LEDGER.values()} <= set(TERMS)
    for status in quadsim.Status:
        assert status.value in GLOSSARY
    for verdict in VERDICTS.values():
        assert verdict in " ".join(GLOSSARY.split())


def test_every_term_that_pages_link_to_is_defined():
    for page in fences.pages():
        for text in re.findall(r"\{term\}`([^`]+)`", page.read_text(encoding="utf-8")):
            term = text.partition("<")[2].rstrip(">") or text
            assert term in TERMS, f"{page}: {term}"


@pytest.mark.parametrize("text", ["a|b", "w_i*", "{x}`y", "<b>", "$1$", "[a](b)", "a\\b", "x^2~"])
def test_escaped_text_has_no_markup(text):
    escaped = markdown.escape(text)
    assert re.sub(r"\\(.)", r"\1", escaped) == text
    assert not re.search(r"(?<!\\)(?:\\\\)*[|*_{}\[\]<>$`^~]", escaped)


def test_prose_keeps_code():
    assert markdown.prose("a_b `c_d` and ``e_f``") == r"a\_b `c_d` and `e_f`"
