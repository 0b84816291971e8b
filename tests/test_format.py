"""The text of numbers, by example."""

import math

import pytest

from quadsim import _format

CASES = [
    (_format.shortest, {5000.0: "5000", 0.1: "0.1", -0.0: "0", 1e-6: "1e-06", 1e22: "1e+22", 2.5: "2.5"}),
    (_format.compact, {0.00312: "0.0031", 1.23: "1.2", 99.7: "100", 33412.4: "33,412", 1.2e6: "1.2e+06", -12.6: "-13"}),
    (_format.compact, {math.inf: "∞", -math.inf: "−∞", math.nan: "–"}),
    (_format.significant, {0.01193: "0.0119", 1.5703: "1.57", 5118.2: "5,118"}),
    (_format.scientific, {3.14e-16: "3.1e-16", -0.0: "0.0e+00", None: ""}),
    (_format.ratio, {math.log10(1.04): "1.04", math.log10(2.31): "2.3", math.inf: "∞", -math.inf: "0", math.nan: "–"}),
    (_format.factor, {math.log10(1.04): "1.04×", math.log10(142): "140×", math.log10(4321): "4,300×", 19.2: "10¹⁹×"}),
    (_format.signed_decades, {0.312: "+0.31", -1.21: "-1.2", math.inf: "∞", -math.inf: "−∞", math.nan: "–"}),
]


@pytest.mark.parametrize(("function", "value", "text"), [(f, v, t) for f, pairs in CASES for v, t in pairs.items()])
def test_text_of_a_number(function, value, text):
    assert function(value) == text


def test_counts_and_lists_of_names():
    assert [_format.counted(count, "run") for count in (0, 1, 2048)] == ["0 runs", "1 run", "2,048 runs"]
    assert _format.counted(2, "matrix", "matrices") == "2 matrices"
    assert [_format.enumerated("abc"[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
