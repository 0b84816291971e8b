"""Optimizers that are shown together are told apart by colour or stroke, also by the colour-blind."""

import itertools

import numpy as np
import pytest

from quadsim import plots
from quadsim.plots.style import STROKES, UNUSED, styles_of

# Colour vision deficiencies at full severity, on linear RGB (Machado, Oliveira & Fernandes 2009, Table 1).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
# Oklab (Ottosson 2020): linear RGB to cone responses, and their cube roots to lightness and two opponent axes.
CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
OPPONENT = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766]]  # fmt: skip
# About 0.02 is just noticeable for patches side by side; thin lines need several times that. Okabe and Ito's bluish
# green and blue are 0.086 apart for tritanopes, the least of the pairs that were designed to be safe.
DISTINCT = 0.08


def oklab(colour, vision="normal"):
    code = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    return OPPONENT @ np.cbrt(CONES @ seen)


def distance(one, other):
    """The distance of two colours for the eyes that tell them apart least."""
    return min(float(np.linalg.norm(oklab(one, vision) - oklab(other, vision))) for vision in VISION)


def confused(styles):
    """Pairs of names with the same stroke and colours that are too near."""
    return [
        (a, b, round(distance(styles[a].colour, styles[b].colour), 3))
        for a, b in itertools.combinations(styles, 2)
        if styles[a].stroke == styles[b].stroke and distance(styles[a].colour, styles[b].colour) < DISTINCT
    ]


def test_every_pair_of_built_in_optimizers_is_told_apart():
    assert len(plots.STYLES) > 20
    assert confused(plots.STYLES) == []


@pytest.mark.parametrize("pair", [("adam", "frozen-adam"), ("muon", "adam-mini"), ("adam", "adamw"), ("gd", "sgd")])
def test_pairs_that_are_often_shown_together_differ_in_stroke(pair):
    assert plots.style_of(pair[0]).stroke != plots.style_of(pair[1]).stroke


@pytest.mark.parametrize("shown", [[], ["gd", "frozen-adam", "block-gd"], list(plots.STYLES)])
def test_user_defined_optimizers_are_told_apart_from_all_others(shown):
    own = [f"mine-{k}" for k in range(len(UNUSED) - 5)]
    styles = styles_of([*shown, *own])
    assert [styles[name] for name in shown] == [plots.STYLES[name] for name in shown]
    assert confused(styles) == []


def test_more_optimizers_than_styles_still_have_one():
    assert all(style.colour for style in styles_of([f"mine-{k}" for k in range(100)]).values())


def test_colours_are_visible_on_white_and_strokes_differ():
    for style in plots.STYLES.values():
        assert oklab(style.colour)[0] < 0.8, style
    assert len({str(stroke) for stroke in STROKES.values()}) == len(STROKES)


def test_the_check_can_fail():
    """The styles that were told apart by normal eyes only: equal strokes, red and green of equal lightness."""
    assert confused({"a": plots.Style("a", "#C06030"), "b": plots.Style("b", "#808020")})
    assert not confused({"a": plots.Style("a", "#D55E00"), "b": plots.Style("b", "#0072B2")})
    assert distance("#000000", "#FFFFFF") == pytest.approx(1, abs=1e-3)
