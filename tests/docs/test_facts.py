"""Facts: each one is computed, used, and quoted with its present value."""

import re

import facts
import fences
import pytest

ROLE = re.compile(r"\{fact\}`([^`]*)`")
QUOTING = [path for name in fences.ROOT_PAGES if (path := fences.ROOT / name).is_file()]


def used():
    """The names of facts in all pages, with a page that uses each."""
    found = {name: "README" for path in QUOTING for name, _ in facts.quoted(path.read_text(encoding="utf-8"))}
    for page in fences.pages():
        found |= dict.fromkeys(ROLE.findall(page.read_text(encoding="utf-8")), fences.name_of(page))
    return found


@pytest.mark.parametrize("name", sorted(facts.load()))
def test_every_fact_has_a_text(name):
    assert facts.text(name).strip()


def test_every_fact_is_used_and_every_used_one_defined():
    assert set(facts.load()) == set(used())


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: path.name)
def test_quoted_facts_are_in_step(path):
    """python docs/update_readme.py rewrites them."""
    for name, text in facts.quoted(path.read_text(encoding="utf-8")):
        assert text == facts.text(name), name


def test_a_stale_quotation_is_rewritten(monkeypatch):
    monkeypatch.setitem(facts.FACTS, "probe", lambda: "32,829")
    text = "GD takes <!-- fact:probe -->33,000<!-- /fact --> steps."
    assert facts.quoted(text) == [("probe", "33,000")]
    assert facts.requote(text) == "GD takes <!-- fact:probe -->32,829<!-- /fact --> steps."
    facts.text.cache_clear()


def test_two_facts_of_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(facts, "FACTS", {})

    def probe():
        return "1"

    facts.fact(probe)
    other = type(probe)(probe.__code__, {}, "probe")
    other.__module__ = "facts_other"
    with pytest.raises(ValueError, match="fact probe is defined in"):
        facts.fact(other)


@pytest.mark.parametrize("value", ["", "  ", 3])
def test_a_fact_returns_text(monkeypatch, value):
    monkeypatch.setitem(facts.FACTS, "probe", lambda: value)
    with pytest.raises(TypeError, match="must return a text"):
        facts.text("probe")


def test_an_unknown_fact_is_refused():
    with pytest.raises(KeyError, match="no fact 'nowhere'"):
        facts.text("nowhere")


@pytest.mark.parametrize(
    ("number", "shown"), [(0.01394, "0.014"), (258.3, "260"), (1.849, "1.8"), (12.3, "12"), (4064.0, "4,100")]
)
def test_digits(number, shown):
    assert facts.digits(number) == shown
