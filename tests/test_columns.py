"""Tables written without pandas have the bytes that pandas writes."""

import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import quadsim as qs
from quadsim import _columns
from quadsim.engine import table

WHOLE = ("count", "missing count")
FLOATS = [0.0, -0.0, 1.0, 0.1, 1e-7, 1e16, 1e22, 123456789.0, 5e-324, -2.5e300, np.inf, -np.inf, np.nan]
TEXTS = ["", "plain", 'a "quote"', "a, comma", "two\nlines", "κ = 5000", "  spaces ", "1/2", "carriage\rreturn"]
VALUES = {
    "float": FLOATS,
    "missing float": [*FLOATS, None],
    "int": [0, 1, -7, 10**12],
    "float or int": [1, 2.5, 10**9],
    "missing int": [3, 100, None],
    "count": [5, 10**12],
    "missing count": [5, None],
    "text": TEXTS,
    "missing text": [*TEXTS, None],
    "flag": [True, False],
    "missing flag": [True, None],
    "nothing": [None],
}


def written(value, tmp_path):
    path = tmp_path / "table.csv"
    value.to_csv(path, index=False)
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_written_as_by_pandas(seed, tmp_path):
    draw = random.Random(seed)
    names = draw.sample(list(VALUES), draw.randint(2, len(VALUES)))
    rows = [
        {name: draw.choice(VALUES[name]) for name in names if name in names[:1] or draw.random() < 0.8}
        for _ in range(draw.randint(1, 9))
    ]
    frame = pd.DataFrame(rows)
    frame = frame.astype({name: "Int64" for name in WHOLE if name in frame})
    expected = written(frame, tmp_path)
    assert written(_columns.from_rows(rows, WHOLE), tmp_path) == expected
    assert written(_columns.from_rows([*rows, {"further": 1}], WHOLE), tmp_path) != expected


def test_runs_are_written_as_their_tables(tmp_path):
    """Different settings, learning rates by block, a failed run, noise, a run without steps."""
    problem = qs.case(3)
    runs = [
        *qs.solve(problem, [qs.GD(), qs.FrozenAdam(), qs.BlockGD()]),
        *qs.solve(problem, [qs.Adam(), qs.GD(lr=1.0), qs.Muon()], max_steps=50, noise=qs.Noise(batch=3)),
        qs.solve(problem, qs.Adam(), e0=np.zeros(9), schedule="cosine", max_steps=20),
    ]
    made = table.columns(runs)
    for suffix, frame in {"": table.summary(runs), "-curves": table.curves(runs)}.items():
        assert written(made[suffix], tmp_path) == written(frame, tmp_path)
    assert written(made[""], tmp_path) != written(table.summary(runs[1:]), tmp_path)


def test_a_run_on_the_command_line_does_not_import_pandas(tmp_path):
    code = (
        "import sys; from quadsim.cli import main; main.main(sys.argv[1:]); print([m for m in {} if m in sys.modules])"
    )
    modules = ("pandas", "scipy.linalg", "numba")
    arguments = [sys.executable, "-c", code.format(modules), "case=3", f"out={tmp_path}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    done = subprocess.run([*arguments, "optimizers=gd,adam"], capture_output=True, text=True, check=True)
    assert "numba" in done.stdout.splitlines()[-1]
