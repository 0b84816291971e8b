"""`qs.table`: one run counts as a list of one; other objects are refused with one sentence."""

import pandas as pd
import pytest

import quadsim as qs
from quadsim._validation import InputError

RUN = qs.solve(qs.case(3), qs.GD(), max_steps=10)
FUNCTIONS = ("summary", "curves", "quartiles", "bands")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_single_run_is_a_list_of_one(name):
    function = getattr(qs.table, name)
    pd.testing.assert_frame_equal(function(RUN), function([RUN]))
    pd.testing.assert_frame_equal(function(iter([RUN])), function([RUN]))
    assert len(function(RUN)) > 0


@pytest.mark.parametrize("name", [*FUNCTIONS, "rows"])
@pytest.mark.parametrize("given", [None, 3, "case 3", qs.case(3), [RUN, None], [[RUN]], pd.DataFrame({"a": [1]})])
def test_what_holds_no_runs_is_refused(name, given):
    with pytest.raises(InputError, match=r"^runs must be .*qs\.solve returns, got") as caught:
        getattr(qs.table, name)(given)
    assert "\n" not in str(caught.value)


def test_no_runs():
    assert qs.table.rows([]) == []
    assert qs.table.curves([]).columns.tolist() == list(RUN.to_frame().columns)
    for name in ("quartiles", "bands"):
        with pytest.raises(InputError, match="at least one run"):
            getattr(qs.table, name)([])
