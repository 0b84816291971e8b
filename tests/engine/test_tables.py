"""`qs.table`: one run counts as a list of one; other objects are refused with one sentence."""

import numpy as np
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


def test_bands_of_runs_recorded_from_a_later_step_refer_to_step_0():
    every = qs.solve(qs.case(3), qs.GD(), max_steps=100, record=1)
    bands = qs.table.bands(qs.exact(qs.case(3), qs.GD(), at=[10, 100]))
    assert (bands["step"].min(), bands["step"].max()) == (10, 100)
    ends = bands.set_index("step").loc[[10, 100], "median"]
    np.testing.assert_allclose(ends, every.relative[[10, 100]], rtol=1e-12)
    assert qs.table.bands(every)["step"].min() == 0


def test_bands_without_a_recorded_step():
    lost = qs.exact(qs.case(3), qs.GD(lr=1.0), at=[10**6])
    assert lost.steps.size == 0
    with pytest.raises(InputError, match="no run has a recorded step"):
        qs.table.bands(lost)
    assert set(qs.table.bands([lost, RUN])["optimizer"]) == {"gd"}
