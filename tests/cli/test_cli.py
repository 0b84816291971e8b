"""The command line: valid and invalid use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim import _columns
from quadsim.cli import arguments, help_text, reading
from quadsim.cli.commands import run as run_command
from quadsim.engine.table import read_csv


def line_of(argv):
    """A command line of `run`, checked and parsed."""
    line = arguments.read(argv, help_text.commands())
    arguments.check_keys(line, run_command.KEYS, settings=True)
    arguments.parse(line, run_command.KEYS)
    return line


def written(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_case_3_prints_draws_and_writes(command, tmp_path):
    code, out, err = command("case=3")
    assert (code, err) == (0, "")
    assert "κ = 5000" in out
    assert "κ_l = 3, 1.0202, 1.0004" in out
    assert "κ_eff of frozen Adam = " in out
    assert " r = " in out
    for label in ("GD", "Adam (β2 = 1)", "Block GD"):
        assert label in out
    files = ["case-3-curves.csv", "case-3.csv", "case-3.json", "case-3.png", "case-3.svg"]
    assert written(tmp_path) == ["figures", *(f"figures/{name}" for name in files)]
    for name in files:
        assert f"wrote figures/{name}" in out
    assert (tmp_path / "figures/case-3.png").read_bytes().startswith(b"\x89PNG")


def test_the_csv_has_the_numbers_of_exact_and_solve(command, tmp_path):
    command("case=4", "seed=3", "optimizers=gd,adam", "adam.lr=0.01", "max_steps=2e3", "tol=1e-4", "out=there")
    (path,) = tmp_path.glob("there/*adam.lr-0.01*1e-4.csv")
    table = read_csv(path)
    assert list(table["optimizer"]) == ["gd", "adam"]
    calls = ((qs.exact, qs.GD()), (qs.solve, qs.Adam(lr=0.01)))
    for row, (call, optimizer) in zip(table.itertuples(), calls, strict=True):
        run = call(qs.case(4, seed=3), optimizer, seed=3, max_steps=2000, tol=1e-4)
        assert row.loss == run.loss[-1]
        assert row.engine == run.engine
        assert row.status == run.status
        assert row.seed == 3
    curves = read_csv(next(tmp_path.glob("there/*-curves.csv")))
    assert set(curves["optimizer"]) == {"gd", "adam"}
    assert np.isfinite(curves[["step", "loss", "grad_norm", "relative"]]).all(axis=None)


def test_json_is_the_only_thing_on_standard_output(command):
    code, out, err = command("case=3", "--json", "optimizers=gd,adam", "max_steps=1000", "out=x")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["problem"]["kappa"] == 5000
    assert result["problem"]["block_kappas"] == list(qs.case(3).block_kappas)
    gd, adam = result["runs"]
    assert (gd["optimizer"], gd["status"], gd["steps_to_tol"]) == ("gd", "max-steps", None)
    assert gd["lr"] == 2 / 5001
    assert adam["beta2"] == 0.999
    assert all(Path(name).exists() for name in result["files"])


def test_the_settings_file_reproduces_the_result(command, tmp_path):
    command("case=3", "kappa=100", "adam.beta2=0.99", "optimizers=adam", "seed=5", "max_steps=300")
    settings = json.loads(next(tmp_path.glob("figures/*.json")).read_text(encoding="utf-8"))
    assert settings["versions"]["numpy"] == np.__version__
    argv = settings["command"].removeprefix("python -m quadsim ").split()
    before = next(tmp_path.glob("figures/*300.csv")).read_bytes()
    command(*argv, "out=again")
    assert next(tmp_path.glob("again/*300.csv")).read_bytes() == before
    pictures = [
        next(tmp_path.glob(f"{folder}/*.{kind}")).read_bytes()
        for kind in ("svg", "png")
        for folder in ("figures", "again")
    ]
    assert pictures[0] == pictures[1]
    assert pictures[2] == pictures[3]


@pytest.mark.parametrize(
    ("argv", "eigenvalues"),
    [
        (["spectrum=1,2,3/99,100,101"], [[1, 2, 3], [99, 100, 101]]),
        (["spectrum=2,1/7"], [[1, 2], [7]]),
        (["spectrum=1,2/3,4", "heterogeneity=0"], [[1, 3], [2, 4]]),
        (["spectrum=1/2,3,4", "heterogeneity=1"], [[1], [2, 3, 4]]),
        (["spectrum=1,2/3", "kappa=5"], [[1, 3], [5]]),
        (["spectrum=1,2/16", "kappa=256", "map=geometric"], [[1, 4], [256]]),
        (["case=3", "heterogeneity=0"], [[1, 99, 4998], [2, 100, 4999], [3, 101, 5000]]),
        (["case=3", "block_size=1"], [[1], [100], [5000]]),
        (["case=4", "span=whole"], [[1, 2, 3, 99, 100, 101, 4998, 4999, 5000]]),
        (["spectrum=linear", "kappa=6", "blocks=2"], [[1, 2, 3], [4, 5, 6]]),
    ],
    ids=str,
)
def test_problems_have_the_expected_eigenvalues(argv, eigenvalues):
    problem = qs.problem(**reading.problem_keys(line_of(argv).values))
    assert problem.sizes == tuple(len(part) for part in eigenvalues)
    np.testing.assert_allclose(np.concatenate(problem.eigenvalues), np.concatenate(eigenvalues), rtol=1e-12)


def test_rotation_reaches_the_problem():
    for argv in (["case=3", "rotation=0"], ["case=3", "basis=diagonal"]):
        problem = qs.problem(**reading.problem_keys(line_of(argv).values))
        assert np.count_nonzero(problem.hessian()) == 9


def test_dotted_settings_reach_the_optimizers():
    argv = "optimizers=gd,block-gd,frozen-adam,adam gd.lr=1e-4 block_gd.lr=0.5/0.1/1e-4 frozen-adam.beta1=0.5 adam.eps=0 adam.bias_correction=false adam.init=gradient"  # noqa: E501
    made = reading.optimizers(line_of(argv.split()))
    assert made == [
        qs.GD(lr=1e-4),
        qs.BlockGD(lr=(0.5, 0.1, 1e-4)),
        qs.FrozenAdam(beta1=0.5),
        qs.Adam(eps=0, bias_correction=False, init="gradient"),
    ]


def test_the_default_engine_is_the_closed_form_if_there_is_one(command):
    argv = ("case=4", "optimizers=gd,heavy-ball,nesterov,frozen-adam,adam", "tol=1e-3", "--json")
    by_default = json.loads(command(*argv)[1])["runs"]
    assert [run["engine"] for run in by_default] == ["closed-form"] * 4 + ["compiled"]
    iterated = json.loads(command(*argv, "engine=compiled")[1])["runs"]
    assert {run["engine"] for run in iterated} == {"compiled"}
    for one, other in zip(by_default, iterated, strict=True):
        assert one["steps_to_tol"] == other["steps_to_tol"]


def test_closed_forms_take_as_many_steps_as_they_need(command):
    (run,) = json.loads(command("case=3", "kappa=1e8", "optimizers=gd", "tol=1e-8", "--json")[1])["runs"]
    assert run["steps_to_tol"] > 5e8
    assert run["max_steps"] == 10**12
    (run,) = json.loads(command("case=3", "optimizers=gd", "tol=0", "--json")[1])["runs"]
    assert (run["last_step"], run["status"]) == (100_000, "max-steps")


def test_an_unstable_lr_is_a_diverged_row(command):
    code, out, _ = command("case=3", "optimizers=gd,heavy-ball", "gd.lr=1", "heavy-ball.lr=1", "--json")
    assert code == 0
    assert [run["status"] for run in json.loads(out)["runs"]] == ["diverged", "diverged"]


def test_verify_prints_verdicts_and_writes_the_document(command, tmp_path):
    code, out, _ = command("verify", "claim=2c,1c", "draws=60", "seed=7", "out=there", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["claim"] for row in rows] == ["1c", "1c-varying", "2c"]
    assert {"claim", "status", "verdict", "draws", "margin", "ok"} <= set(rows[0])
    assert [row["verdict"] for row in rows] == ["refuted", "refuted", "holds"]
    assert [row["draws"] for row in rows] == [60] * 3
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"ledger.md", "ledger.csv", "ledger.json"}
    assert "### Claim 2c (PROVED)" in (tmp_path / "there/ledger.md").read_text(encoding="utf-8")
    code, out, _ = command("verify", "claim=2c", "draws=10")
    assert code == 0
    assert "holds" in out
    assert "1 of 1 verdicts are as the ledger says" in out


def test_verify_fails_if_a_verdict_differs_from_the_ledger(command, monkeypatch):
    monkeypatch.setattr("quadsim.theory.block_rate", lambda problem, w0: (1e-9, 0.5))
    code, out, _ = command("verify", "claim=2b", "draws=20")
    assert code == 1
    assert "violated" in out
    code, out, _ = command("verify", "claim=2-paper-r", "draws=20")
    assert code == 1
    assert "undecided: more draws are needed" in out


def test_list_help_and_version(command):
    code, out, _ = command("list")
    assert code == 0
    assert {"frozen-adam", "log-uniform", "4998"} <= {word.strip("{},:") for word in out.split()}
    assert "gd" not in command("list", "cases")[1].split()
    assert "2e-jacobi" in command("list", "claims")[1].split()
    listed = json.loads(command("list", "--json")[1])
    assert [entry["case"] for entry in listed["cases"]] == [1, 2, 3, 4]
    assert command("--help") == command("-h") == command("help") == command()
    assert command("help", "sweep") == command("sweep", "--help")
    assert "case=1" in command("--help")[1]
    for name in help_text.commands():
        code, out, _ = command(name, "--help")
        assert code == 0
        assert out.startswith(f"quadsim {name}: ")
        assert f"  {name}" in command("--help")[1]
    assert command("--version")[1] == f"quadsim {qs.__version__}\n"


BAD = [
    ("case=5", "unknown case '5': allowed are 1, 2, 3, 4"),
    ("case=three", "unknown case 'three': allowed are 1, 2, 3, 4"),
    ("case=3.5", "unknown case '3.5': allowed are 1, 2, 3, 4"),
    ("case=3 kapa=10", "unknown key 'kapa': did you mean kappa?"),
    ("case=3 kappa=0.5", "kappa must be a finite number at least 1 and at most 1e+60, got 0.5"),
    ("case=3 kappa=nan", "kappa must be a number such as 5000 or 1e-6, got 'nan'"),
    ("case=3 kappa=1e999", "kappa must be a finite number, got inf"),
    ("case=3 optimizers=gd,adm", "unknown optimizer 'adm': did you mean adam?"),
    ("case=3 optimizers=gd,gd", "optimizers names gd twice"),
    ("case=3 optimizers=gd,", "a list is written a,b: write python -m quadsim case=3 optimizers=gd"),
    ("case=3 gd.lr=0", "gd.lr must be a finite number above 0, got 0"),
    ("case=3 gd.rate=1", "unknown setting of gd 'rate'"),
    ("case=3 adam.lr=1", "write python -m quadsim case=3 optimizers=gd,adam adam.lr=1"),
    ("case=3 frozen-adam.beta1=1.5", "frozen-adam.beta1 must be a finite number at least 0 and below 1, got 1.5"),
    ("case=3 optimizers=adam adam.bias_correction=2", "unknown adam.bias_correction '2': allowed are true, false"),
    ("case=3 block-gd.lr=1/2", "one for each of 3 blocks, got 2"),
    ("case=3 seed=-1", "seed must be a whole number from 0 to 9223372036854775807, got -1"),
    ("case=3 seed=1e300", "seed must be a whole number from 0 to 9223372036854775807, got 1"),
    ("case=3 block_size=1e9", "block_size must be a whole number from 1 to 2048, got 1000000000"),
    ("spectrum=linear blocks=1e9", "blocks must be a whole number from 1 to 32768, got 1000000000"),
    ("spectrum=linear blocks=1e4 block_size=2000", "blocks times block_size must be at most 32768, got 20000000"),
    ("spectrum=linear kappa=9 map=affine", "map=affine is for given eigenvalues: a law"),
    ("case=3 block-gd.lr=1e-4 block_gd.lr=1e-5", "block-gd.lr is given twice"),
    ("case=3 tol=١", "tol must be a number such as 5000 or 1e-6, got '١'"),
    ("case=3 seed=0..9", "cases and sweep take several: write python -m quadsim cases case=3 seed=0..9"),
    ("case=3 max_steps=0", "max_steps must be a whole number from 1 to 1000000000000, got 0"),
    ("case=3 max_steps=1e13", "max_steps must be a whole number from 1 to"),
    ("case=3 tol=-1", "tol must be a finite number at least 0, got -1"),
    ("case=3 rotation=2", "rotation must be a finite number at least 0 and at most 1, got 2"),
    ("case=3 heterogeneity=-0.1", "heterogeneity must be a finite number at least 0 and at most 1, got -0.1"),
    ("case=3 kappa=9 map=linear", "unknown map 'linear'"),
    ("case=3 basis=fast", "unknown basis 'fast': allowed are haar, diagonal"),
    ("case=3 case=4", "case is given twice"),
    ("case=3 steps=5", "write python -m quadsim case=3 max_steps=5"),
    ("case=1 rule=mass", "write sampling=mass"),
    ("case=1 rule=my.py", "unknown key 'rule': did you mean rules?"),
    ("case=3 seeds=3", "write python -m quadsim cases case=3 seed=0..2"),
    ("measure steps=60", "write lanczos_steps=60"),
    ("case=3 noise=gaussian,labels", "noise=gaussian,labels: join models with +, as in gaussian+labels"),
    ("case=3 label_noise=0.1", "write noise=labels noise.scale=0.1"),
    ("case=3 noise=0.1", "write python -m quadsim case=3 noise=gaussian noise.scale=0.1"),
    ("case=3 noise.scale=0.1", "noise names a model, noise.scale its size: write python"),
    ("case=3 noise=gaussian noise.scale=1/2", "noise.scale must have one number for each of gaussian, got 2"),
    ("case=3 factor=rotated", "factor=rotated requires batch or noise=labels"),
    ("case=3 every=5", "every=5 requires schedule=step"),
    ("case=3 basis=diagonal rotation=0.5", "rotation=0.5 requires basis=haar"),
    ("case=3 spectrum=1,2", "give one of case= and spectrum="),
    ("kappa=10", "give one of case= and spectrum="),
    ("case=3 out=/dev/null/x", "out='/dev/null/x' cannot be written (Not a directory)"),
    ("case=", "case needs a value: write case=N"),
    ("=3", "'=3' is not key=value"),
    ("case=3 banana", "unknown command 'banana'"),
    ("run case=3 banana", "'banana' is not key=value"),
    ("list bananas", "unknown list 'bananas'"),
    ("--jsn case=3", "unknown flag '--jsn': did you mean --json?"),
    ("spectrum=1,0", "block 0: eigenvalues must be finite and above 0, got 0"),
    ("spectrum=1,-2/3", "block 0: eigenvalues must be finite and above 0, got -2"),
    ("spectrum=1,x", "spectrum must be a number such as 5000 or 1e-6, got 'x'"),
    ("spectrum=1,2//3", "spectrum has an empty item"),
    ("spectrum=nan,1", "spectrum must be a number such as 5000 or 1e-6, got 'nan'"),
    ("spectrum=inf", "spectrum must be a number such as 5000 or 1e-6, got 'inf'"),
    ("spectrum=marchenko-pastur blocks=3000 block_size=8", "would draw 48000 x 24000 numbers"),
    ("case=3 map=affine", "map=affine requires kappa"),
    ("case=3 blocks=2", "blocks=2 is for Cases 1 and 2"),
    ("case=3 network=resnet18", "network='resnet18' is for Cases 1 and 2: case 3 is synthetic"),
    ("case=4 sampling=mass", "sampling='mass' is for Cases 1 and 2"),
    ("case=3 kappa=9 map=unshifted", "map unshifted is for Cases 1 and 2"),
    ("spectrum=1,2 sampling=mass", "sampling=mass is for Cases 1 and 2"),
    ("case=2 network=resnet81", "unknown network 'resnet81': did you mean resnet18?"),
    ("case=2 network=none.npz", "network='none.npz' cannot be read (No such file or directory)"),
    ("case=2 blocks=conv1,conv2", "resnet18 has no block 'conv2': it has conv1, layer1.0.conv1"),
    ("case=2 blocks=conv1,conv1", "block conv1 is named twice"),
    ("case=2 blocks=conv1,,fc", "blocks has an empty item"),
    ("case=2 block_size=61", "has 60 nodes, and 61 eigenvalues were asked for: use block_size=60 or less"),
    ("case=2 sampling=random", "unknown sampling 'random': allowed are leading, ritz, mass, above"),
    ("case=2 sign=negative", "unknown sign 'negative': allowed are magnitude, signed, positive"),
    ("case=2 pool=20", "pool must be a whole number of at least 30, got 20"),
    ("case=2 pool=30 sampling=mass", "pool=30 is for sampling leading, not for mass"),
    ("case=2 threshold=0.1", "threshold=0.1 is for sampling above, not for leading"),
    ("case=2 sampling=above threshold=1", "threshold must be a finite number at least 0 and below 1, got 1"),
    ("case=2 map=unshifted kappa=10", "kappa=10 cannot be combined with map unshifted"),
    ("cases seeds=100", "write python -m quadsim cases seed=0..99"),
    ("cases seeds=0", "write seed=0..9"),
    ("cases seeds=" + "9" * 5000, "write seed=0..9"),
    ("sweep case=3 seeds=7", "write python -m quadsim sweep case=3 seed=0..6"),
    ("cases seed=5..3", "seed=5..3 is empty"),
    ("cases seed=1,1", "seed names 1 twice"),
    ("cases case=3,3", "case names 3 twice"),
    ("cases tol=0", "tol must be a finite number above 0 and below 1, got 0"),
    ("cases now", "'now' is not key=value"),
    ("spectra model=resnet81", "unknown network 'resnet81'"),
    ("spectra model=resnet18 blocks=conv2", "resnet18 has no block 'conv2'"),
    ("spectra model=resnet18 sigma=0", "sigma must be a finite number above 0, got 0"),
    ("spectra model=resnet18 sigma=1e-19", "sigma=1e-19 is too small for eigenvalues up to"),
    ("spectra model=resnet18 scale=log", "unknown scale 'log': allowed are raw, tenth"),
    ("spectra scale=raw", "scale= requires model="),
    ("spectra resnet18", "write python -m quadsim spectra model=resnet18"),
    ("spectrum=uniform", "unknown law 'uniform'"),
    ("spectrum=1,2 blocks=2", "blocks=2 is for a law"),
    ("spectrum=linear blocks=0", "blocks must be a whole number from 1 to 32768, got 0"),
    ("case=3 optimizers=gd,adam engine=closed-form", "adam has no closed form: use engine=compiled or auto"),
    ("cases optimizers=gd,adam engine=closed-form", "adam has no closed form: use engine=compiled or auto"),
    ("case=3 engine=closed", "unknown engine 'closed': did you mean closed-form? allowed are auto, compiled"),
    ("case=3 engine=closed-form batch=3", "engine=closed-form allows neither noise nor a changing learning rate"),
    ("case=3 engine=closed-form max_steps=-5", "max_steps must be a whole number from 1 to 1000000000000, got -5"),
    ("case=3 engine=closed-form max_steps=1.5", "max_steps must be a whole number, got '1.5'"),
    ("case=3 engine=compiled max_steps=1e13", "max_steps must be a whole number from 1 to 1000000000000, got 1000"),
    ("case=3 optimizers=heavy-ball heavy-ball.momentum=1", "heavy-ball.momentum must be a finite number at least 0"),
    ("case=3 tol=1e-400", "tol must be a number that float64 can hold, got '1e-400'"),
    ("verify claim=2z", "unknown claim '2z': did you mean 2"),
    ("verify claim=2b,", "a list is written a,b: write python -m quadsim verify claim=2b"),
    ("verify claim=2b draws=0", "draws must be a whole number from 1 to 10000000, got 0"),
    ("verify claim=2b draws=-3", "draws must be a whole number from 1 to 10000000, got -3"),
    ("verify claim=2b draws=1e9", "draws must be a whole number from 1 to 10000000, got 1000000000"),
    ("verify claim=2b seed=x", "seed must be a number such as 5000 or 1e-6, got 'x'"),
    ("verify claim=2b out=/dev/null/x", "out='/dev/null/x' cannot be written"),
    ("verify case=3", "unknown key 'case'"),
    ("verify 2b", "write python -m quadsim verify claim=2b"),
]  # fmt: skip


@pytest.mark.parametrize(("argv", "message"), BAD, ids=[argv for argv, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(check_bad_line, argv, message):
    check_bad_line(argv, message)


KEYS = st.sampled_from(
    [*run_command.KEYS, "gd.lr", "adam.beta1", "frozen-adam.beta1", "kapa", "", "-", "x.y", "list", "µ"]
)
VALUES = st.one_of(
    st.sampled_from(
        ["3", "4", "nan", "inf", "-1", "0", "1e5", "gd", "gd,adam", "1,2/3", "linear", "true", "", "1e400", "½"]
    ),
    st.text(max_size=8),
)
WORDS = st.lists(st.one_of(st.builds("{}={}".format, KEYS, VALUES), st.text(max_size=6)), max_size=5)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORDS)
def test_no_arguments_cause_a_traceback(command, monkeypatch, argv):
    """Any arguments give an exit code and at most one line on standard error."""
    monkeypatch.setattr(run_command, "_write", lambda *rest: None)  # drawing three hundred figures would take minutes
    monkeypatch.setattr("quadsim._artifacts.check_folder", lambda folder: None)
    if not any(word.startswith("max_steps=") for word in argv):
        argv = [*argv, "max_steps=50"]
    code, out, err = command(*argv)
    assert code in (0, 2)
    assert err.count("\n") == (code == 2), err
    assert (out == "") == (code == 2)


def test_a_failure_while_writing_leaves_nothing(command, tmp_path, monkeypatch):
    def full(*rest, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_columns.Columns, "to_csv", full)
    code, _, err = command("case=3", "max_steps=10", "out=there")
    assert code == 1
    assert err == "quadsim: No space left on device: there/case-3-max_steps-10.csv\n"
    assert written(tmp_path) == []


def test_a_folder_with_the_name_of_a_file_leaves_nothing(command, tmp_path):
    (tmp_path / "there/case-3-max_steps-10.csv").mkdir(parents=True)
    code, _, err = command("case=3", "max_steps=10", "out=there")
    assert code == 1
    assert err == "quadsim: Is a directory: there/case-3-max_steps-10.csv\n"
    assert written(tmp_path) == ["there", "there/case-3-max_steps-10.csv"]


@pytest.mark.parametrize("out", ["a" * 300, "a/" * 3000, "a\0b"], ids=["long", "deep", "nul"])
def test_a_folder_that_cannot_be_named(command, tmp_path, out):
    code, _, err = command("case=3", "max_steps=10", f"out={out}")
    assert code == 2
    assert len(err) < 200
    assert "cannot be written" in err or "control character" in err
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    "argv", ["case=3 tol=0", "case=3 tol=1e-300 optimizers=block-gd", "spectrum=1e-60,1e60 rotation=0"]
)
def test_extremes_are_drawn_and_written(command, argv):
    code, out, err = command(*argv.split(), "max_steps=5000", "--json")
    assert (code, err) == (0, "")
    assert len(json.loads(out)["files"]) == 5


def test_different_problems_have_different_files(command, tmp_path):
    command("spectrum=1,2/3,4", "optimizers=gd")
    command("spectrum=1,2,3,4", "optimizers=gd")
    assert len(list(tmp_path.glob("figures/*.json"))) == 2


def test_an_old_result_survives_a_failed_new_one(command, tmp_path, monkeypatch):
    command("case=3", "max_steps=10")
    before = {path: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    monkeypatch.setattr(json, "dumps", lambda *rest, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command("case=3", "max_steps=10")
    assert {path: path.read_bytes() for path in (tmp_path / "figures").iterdir()} == before


def test_a_diverging_run_is_a_row(command):
    code, out, _ = command("case=3", "optimizers=gd", "gd.lr=1", "--json")
    (row,) = json.loads(out)["runs"]
    assert row["lane"] == 0
    assert code == 0
    assert row["status"] == "diverged"
    assert row["steps_to_tol"] is None


def module(*argv, **env):
    return subprocess.run(
        [sys.executable, "-m", "quadsim", *argv],
        capture_output=True,
        text=True,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
    )


def test_as_a_module_and_as_a_command(tmp_path):
    """In a pipe no progress is shown; the script takes the same arguments."""
    done = module("case=3", "max_steps=100", f"out={tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Case 3" in done.stdout
    assert module("case=9").returncode == 2
    script = Path(sys.executable).with_name("quadsim")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout.startswith("quadsim ")


def test_other_encodings_and_closed_streams(tmp_path):
    """Encodings without Greek letters, and a closed standard output."""
    assert module("--help", PYTHONIOENCODING="ascii").returncode == 0
    done = module("case=3", "max_steps=10", f"out={tmp_path}", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    line = f"{sys.executable} -m quadsim case=3 max_steps=10 out={tmp_path} >&-"
    closed = subprocess.run(line, shell=True, stderr=subprocess.PIPE)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_read_only_home_is_not_bad_input(tmp_path):
    done = module("case=3", "max_steps=100", f"out={tmp_path}", HOME="/dev/null", XDG_CACHE_HOME="", MPLCONFIGDIR="")
    assert done.returncode == 0
    assert (tmp_path / "case-3-max_steps-100.png").exists()


def test_progress_is_shown_on_a_terminal(tmp_path):
    """The bar is drawn on standard error and erased at the end."""
    import pty

    master, slave = pty.openpty()
    argv = [
        sys.executable,
        "-m",
        "quadsim",
        "case=4",
        "optimizers=gd",
        "engine=compiled",
        "gd.lr=1e-9",
        "tol=0",
        "max_steps=1.5e8",
        f"out={tmp_path}",
    ]
    done = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=slave, env=os.environ | {"TERM": "xterm"})
    out, _ = done.communicate()
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert done.returncode == 0
    assert b"GD" in shown
    assert b"150,000,000" in shown
    assert b"\x1b" not in out
