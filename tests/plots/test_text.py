"""Names that are shortened to fit stay distinct; ticks of axes with fewer than two powers of ten."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadsim.plots.figure import PowerFormatter, PowerLocator
from quadsim.plots.text import all_fitted, all_shortened, width_of


@given(st.lists(st.text("ab", max_size=30), min_size=1, max_size=12), st.integers(9, 24))
def test_texts_that_differ_stay_different(texts, at_most):
    found = all_shortened(texts, at_most)
    assert len(set(found)) == len(set(texts))
    assert all(len(name) <= at_most for name in found)
    assert all(name == text for name, text in zip(found, texts, strict=True) if len(text) <= at_most)


def test_what_differs_is_kept():
    names = [f"transformer.block.{k:02d}.attention.out.weight" for k in range(12)]
    for found in (all_shortened(names, 20), all_fitted(names, 1.2, 7.5)):
        assert all(f"{k:02d}" in name for k, name in enumerate(found))
    assert width_of(all_fitted(names, 1.2, 7.5), 7.5) <= 1.2
    assert all_fitted(["short", "x" * 99], 1.2, 7.5)[0] == "short"
    assert all_shortened(["a" * 50, "a" * 50]) == 2 * ["a" * 22 + "…" + "a" * 22]  # equal names stay equal


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.8, 150.0, ["10⁰", "10¹", "10²"]),
        (0.85, 2.4, ["1", "2"]),
        (0.03, 0.6, ["0.05", "0.1", "0.2", "0.5"]),
        (1.1, 1.9, ["1.2", "1.4", "1.6", "1.8"]),
        (1500.0, 2600.0, None),
        (1e-9, 1.01e-9, None),
    ],
)
def test_an_axis_has_at_least_two_different_numbers(low, high, texts):
    ticks = [tick for tick in PowerLocator(numticks=9).tick_values(low, high) if low <= tick <= high]
    found = PowerFormatter().format_ticks(ticks)
    assert len(set(found)) == len(ticks) >= 2
    assert texts is None or found == texts
    if texts is None:
        np.testing.assert_allclose([float(text.replace(",", "")) for text in found], ticks, rtol=2e-3)
