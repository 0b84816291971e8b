"""The commands `compare` and `tune`: valid and invalid use."""

import io
import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim import _parsing
from quadsim.cli import arguments, compare_report, help_text, tuning
from quadsim.cli.commands import compare as compare_command
from quadsim.engine.table import read_csv


def written(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


QUICK = ("seed=0..5", "max_steps=60")


@pytest.mark.slow
def test_compare_prints_draws_and_writes(command, tmp_path):
    code, out, err = command("compare", "case=3,4", "batch=3", "optimizers=sgd,signum,adam", *QUICK)
    assert (code, err) == (0, "")
    for word in ("Case 3, final loss", "Case 4, final loss", "SGD", "Signum", "Adam", "best lr", "verdict", "wins"):
        assert word in out
    assert "final loss after 60 steps; tuned on seeds 6–11, confirmed on 0–5" in out
    stem = "figures/compare-case-3_4-batch-3-optimizers-sgd_signum_adam-seed-0..5-max_steps-60"
    suffixes = ["-curves.csv", "-runs.csv", "-tried.csv", ".csv", ".json", ".png", ".svg"]
    assert written(tmp_path) == ["figures", *(stem + suffix for suffix in suffixes)]
    for suffix in suffixes:
        assert f"wrote {stem}{suffix}" in out
    svg = (tmp_path / f"{stem}.svg").read_text(encoding="utf-8")
    for word in ("learning rate", "better", "Signum: ", "python -m quadsim compare case=3,4 batch=3"):
        assert word in svg


def test_the_tables_are_those_of_the_python_call(command, tmp_path):
    command(
        "compare",
        "case=3",
        "batch=3",
        "factor=rotated",
        "schedule=cosine",
        "start=ones",
        "optimizers=gd,adam",
        "objective=mean-log-loss",
        "out=there",
        *QUICK,
    )
    made = qs.compare(
        lambda seed: qs.case(3, seed=seed),
        [qs.GD(), qs.Adam()],
        seed=range(6),
        max_steps=60,
        objective="mean-log-loss",
        noise=qs.Noise(batch=3, factor="rotated"),
        schedule="cosine",
        start="ones",
    )
    table = read_csv(min(tmp_path.glob("there/*.csv"), key=lambda path: len(path.name)))
    for column in ("lr", "lower", "median", "upper", "difference", "low", "high", "wins", "diverged"):
        np.testing.assert_allclose(table[column], made.summary[column].astype(float), rtol=1e-12)
    assert list(table["verdict"]) == list(made.summary["verdict"])
    runs = read_csv(next(tmp_path.glob("there/*-runs.csv")))
    np.testing.assert_allclose(runs["score"], made.runs["score"])


def test_json_is_the_only_thing_on_standard_output_and_holds_no_infinity(command):
    code, out, err = command(
        "compare", "case=3", "optimizers=gd,adam", "gd.lr=1,10", "--json", "seed=0..2", "max_steps=200"
    )
    result = json.loads(out, parse_constant=lambda word: pytest.fail(word))
    assert (code, err) == (0, "")
    gd, adam = result["comparison"]
    assert (gd["verdict"], gd["failed"], gd["median"], gd["diverged"]) == ("diverged", "diverged", None, 1)
    assert adam["difference"] is None  # infinitely better
    assert result["tuning_seed"] == [3, 4, 5]
    assert len(result["files"]) == 7
    assert result["findings"]["case 3"].startswith("Case 3, final loss compared with GD (diverged)")


def test_the_settings_file_reproduces_the_result(command, tmp_path):
    command("compare", "case=3", "optimizers=gd,adam", *QUICK)
    settings = json.loads(next(tmp_path.glob("figures/*.json")).read_text(encoding="utf-8"))
    command(*settings["command"].removeprefix("python -m quadsim ").split(), "out=again")
    for path in tmp_path.glob("figures/*"):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_two_copies_of_a_rule_under_two_names(command, tmp_path):
    text = "import quadsim as qs\n\n\n" + "\n\n\n".join(
        f"@qs.rule\ndef {name}(g, lr=0.01):\n    return lr * g" for name in ("mine", "copy")
    )
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    before = dict(qs.optimizers.OPTIMIZERS)
    try:
        code, out, err = command("compare", "case=3", "rules=mine.py", "optimizers=mine,copy", *QUICK)
    finally:
        qs.optimizers.OPTIMIZERS.clear()
        qs.optimizers.OPTIMIZERS.update(before)
    assert (code, err) == (0, "")
    assert "Case 3, final loss: no difference found between mine and copy (1–1×)" in out


def test_warnings_are_printed_below_the_table(command):
    out = command("compare", "case=3", "optimizers=adam,gd,block-gd", "gd.lr=1e-5,1e-4", "seed=0..2", "max_steps=60")[1]
    assert "GD: the best lr is the highest one tried, and a larger one may be better" in out
    assert "Block GD: its lr is a factor on the best learning rates of the blocks; here" in out
    assert "no difference can be shown among 2 comparisons at level 0.95 with 3 seeds: give 7" in out
    out = command("compare", "case=3", "optimizers=adam,gd", "gd.lr=1,2", "seed=0..2", "max_steps=200")[1]
    assert "GD: every learning rate tried diverged on half of the tuning seeds or more" in out
    assert "Adam: every" not in out  # warnings are about the other optimizers only
    out = command("compare", "case=3", "optimizers=gd,adam", "adam.lr=1e-4,1e-3", "seed=0..2", "max_steps=60")[1]
    assert "Adam: the best lr is the highest" in out
    assert "GD: the best lr" not in out
    out = command("compare", "case=3", "optimizers=adam,gd", "objective=steps-to-tol", "max_steps=300", "seed=0..2")[1]
    assert "GD: every learning rate tried missed tol within 300 steps, diverged or underflowed on half of" in out


def test_the_method_is_in_table_json_and_figure(command, tmp_path):
    argv = ("compare", "case=3,4", "optimizers=gd,adam,heavy-ball", "seed=0..6", "max_steps=60")
    out = " ".join(command(*argv)[1].split())
    sentence = "95% intervals per comparison: order statistics of the paired differences, given the tuned rates"
    for word in (sentence, "two-sided sign test, Holm over 4 comparisons", "p (Holm)", "underflow"):
        assert word in out
    assert "no difference can be shown among 4 comparisons at level 0.95 with 7 seeds: give 8" in out
    (svg,) = tmp_path.glob("figures/*.svg")
    assert "given the tuned rates" in " ".join(svg.read_text(encoding="utf-8").replace("\n", " ").split())
    result = json.loads(command(*argv, "--json")[1])
    assert sentence in result["method"]
    assert result["comparisons"] == 4
    rows = [row for row in result["comparison"] if row["against"]]
    assert len(rows) == 4
    assert all(row["p"] <= row["p_adjusted"] <= 1 and row["comparisons"] == 4 for row in rows)


def test_equality_is_never_claimed(command):
    """ "No difference found" is reported with its interval."""
    out = command("compare", "case=4", "batch=3", "optimizers=gd,adam", "seed=0..7", "max_steps=100")[1]
    assert re.search(r"^Case 4, final loss.* no difference found .*Adam .*\d–\d\S*×", out)
    assert "no difference " not in out.replace("no difference found", "").replace("no difference can be shown", "")


@pytest.mark.slow
def test_underflow_is_a_column_and_a_note(command, tmp_path):
    argv = ("case=3", "optimizers=adam,rmsprop", "adam.eps=0", "adam.beta1=0", "max_steps=20000", "seed=0..7")
    code, out, err = command("compare", *argv, "adam.lr=0.01", "rmsprop.lr=0.01")
    assert (code, err) == (0, "")
    assert "Case 3, final loss compared with Adam (underflow): RMSProp undecided" in out
    assert "of its runs left float64's range, where losses are not valid; their pairs are undecided" in out
    (path,) = tmp_path.glob("figures/*-runs.csv")
    runs = read_csv(path)
    assert runs.loc[runs["status"] == "underflow", "score"].isna().all()
    out = command(
        "tune",
        "case=3",
        "optimizers=adam",
        "adam.eps=0",
        "adam.beta1=0",
        "adam.lr=0.01,0.02",
        "max_steps=20000",
        "seed=0..7",
    )[1]
    assert "underflow" in out


def test_tune_prints_draws_and_writes(command, tmp_path):
    code, out, err = command("tune", "case=3,4", "optimizers=gd,adam", "adam.beta2=0.9,0.99", *QUICK)
    assert (code, err) == (0, "")
    for word in ("final loss after 60 steps", "best lr", "beta2=0.9", "case 3", "case 4"):
        assert word in out
    (path,) = tmp_path.glob("figures/*-tried.csv")
    tried = read_csv(path)
    adam = tried[(tried["optimizer"] == "adam") & (tried["problem"] == "case 3")]
    assert set(adam["beta2"]) == {0.9, 0.99}
    best = qs.tune(lambda seed: qs.case(3, seed=seed), qs.GD(), seed=range(6), max_steps=60)
    table = json.loads(command("tune", "case=3", "optimizers=gd", "--json", *QUICK)[1])
    assert table["tuned"][0]["lr"] == best.optimizer.lr
    assert table["tuned"][0]["edge"] is None


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        ("optimizers=gd,adam adam.lr=0.003,0.01,0.03", {"adam": {"lr": [0.003, 0.01, 0.03]}}),
        ("optimizers=gd,adam adam.lr=0.01", {"adam": {"lr": [0.01]}}),
        ("optimizers=gd,adam adam.beta1=0.5", {}),
        (
            "optimizers=gd,adam adam.beta1=0,0.9 adam.bias_correction=true,false",
            {"adam": {"beta1": [0.0, 0.9], "bias_correction": [True, False]}},
        ),
        ("optimizers=gd lrs=1e-4:1:log5", {"gd": {"lr": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}}),
        ("optimizers=gd,adam lrs=0.1,1 gd.lr=3", {"gd": {"lr": [3.0]}, "adam": {"lr": [0.1, 1.0]}}),
        ("optimizers=adam adam.beta2=0.8:1e0:lin3 adam.init=gradient", {"adam": {"beta2": [0.8, 0.9, 1.0]}}),
        ("optimizers=block-gd block-gd.lr=0.5/0.01/2e-4", {"block-gd": {"lr": [(0.5, 0.01, 2e-4)]}}),
    ],
    ids=str,
)
def test_values_to_try(argv, wanted):
    line = arguments.read(argv.split(), help_text.commands())
    arguments.check_keys(line, compare_command.KEYS, settings=True)
    arguments.parse(line, compare_command.KEYS)
    optimizers, grids = tuning.read_grids(line)
    assert grids.keys() == wanted.keys()
    for name, grid in wanted.items():
        assert grids[name].keys() == grid.keys()
        for setting, values in grid.items():
            np.testing.assert_allclose(grids[name][setting], values)
    if "beta1=0.5" in argv:
        assert optimizers["adam"].beta1 == 0.5


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3", [3]),
        ("1,2,5", [1, 2, 5]),
        ("1:16:log5", [1, 2, 4, 8, 16]),
        ("0:1:lin3", [0, 0.5, 1]),
        ("1:0.01:log3", [1, 0.1, 0.01]),
    ],
)
def test_ranges(text, values):
    assert [float(item) for item in _parsing.alternatives("lrs", text)] == pytest.approx(values)
    found = _parsing.alternatives("lrs", "1e-4:1:log9")
    assert (float(found[0]), float(found[-1])) == (1e-4, 1.0)  # the ends are exact


BAD = [
    ("compare", "give one of case= and spectrum="),
    ("compare case=3,3", "case names 3 twice"),
    ("compare case=5", "unknown case '5': allowed are 1, 2, 3, 4"),
    ("compare case=3 seed=0..0", "seed must hold at least 2 seeds, got 1"),
    ("compare case=3 seeds=30", "write python -m quadsim compare case=3 seed=0..29"),
    ("compare case=3 tuning_seeds=10", "write tuning_seed=30..39 (seeds that are not in seed=)"),
    ("compare case=3 seed=0..9 tuning_seed=5..20", "but 5, 6, 7, 8, 9 are in both"),
    ("compare case=3 seed=1", "seed must hold at least 2 seeds, got 1"),
    ("compare case=3 optimizers=gd,gd", "optimizers names gd twice"),
    ("compare case=3 optimizers=gd,adm", "unknown optimizer 'adm': did you mean adam?"),
    ("compare case=3 optimizers=gd,adam reference=sgd", "unknown reference 'sgd'"),
    ("compare case=3 lrs=1:2:log1", "the number of values of lrs must be a whole number from 2 to 1000, got 1"),
    ("compare case=3 lrs=1:2:log0", "the number of values of lrs must be a whole number from 2 to 1000, got 0"),
    ("compare case=3 lrs=1:1:log5", "lrs=1:1:log5 is one value: write lrs=1"),
    ("compare case=3 lrs=0:1:log5", "must be a finite number above 0, got 0"),
    ("compare case=3 lrs=1:2", "write python -m quadsim compare case=3 lrs=1:2:lin21"),
    ("compare case=3 lrs=a:b:log3", "lrs must be a number such as 5000 or 1e-6, got 'a'"),
    ("compare case=3 lrs=0.1,-1", "lrs must be a finite number above 0, got -1"),
    ("compare case=3 lrs=0.1,0.1", "holds a value twice"),
    ("compare case=3 lrs=,", "lrs has an empty item"),
    ("compare case=3 adam.lr=0.1,0", "adam.lr must be a finite number above 0, got 0"),
    ("compare case=3 adam.lr=0.1,x", "adam.lr must be a number such as 5000 or 1e-6, got 'x'"),
    ("compare case=3 adam.betas=0.1,0.2", "write python -m quadsim compare case=3 adam.beta1=0.1 adam.beta2=0.2"),
    ("compare case=3 adam.beta2=0.9,2", "adam.beta2 must be a finite number"),
    ("compare case=3 sgd.lr=0.1,0.2", "sgd is not among the optimizers: write python"),
    ("compare case=3 objective=loss", "unknown objective 'loss'"),
    ("compare case=3 tol=1e-3", "tol=0.001 requires objective=steps-to-tol"),
    ("compare case=3 objective=steps-to-tol tol=0", "tol must be a finite number above 0 and below 1, got 0"),
    ("compare case=3 level=95", "level must be a finite number above 0 and below 1, got 95"),
    ("compare case=3 level=x", "level must be a number such as 5000 or 1e-6, got 'x'"),
    ("compare case=3 refine=-1", "refine must be a whole number from 0 to 12, got -1"),
    ("compare case=3 extend=99", "extend must be a whole number from 0 to 12, got 99"),
    ("compare case=3 max_steps=0", "max_steps must be a whole number from 1 to 1000000000000, got 0"),
    ("compare case=3 batch=10 seed=0..1 max_steps=5", "batch must be at most the number of rows, 9, got 10"),
    ("compare case=3 optimizers=sgd,nesterov batch=3 seed=0..1 max_steps=5", "nesterov needs gradients without noise"),
    ("compare case=3 engine=compiled", "unknown key 'engine'"),
    ("compare case=3 out=/dev/null/x", "out='/dev/null/x' cannot be written (Not a directory)"),
    ("compare case=3 now", "'now' is not key=value: see python -m quadsim compare --help"),
    ("tune case=3 reference=gd", "unknown key 'reference'"),
    ("tune case=3 tuning_seeds=3", "unknown key 'tuning_seeds'"),
    ("tune case=3 optimizers=gd gd.lr=0.1", "gd.lr=0.1 leaves nothing to tune: give several values, or none"),
    ("tune case=3 optimizers=gd lrs=0.1", "gd.lr=0.1 leaves nothing to tune"),
]  # fmt: skip


@pytest.mark.parametrize(("argv", "message"), BAD, ids=[argv for argv, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(check_bad_line, argv, message):
    check_bad_line(argv, message)


KEYS = st.sampled_from([*compare_command.KEYS, "gd.lr", "adam.lr", "adam.beta2", "kapa", "", "x.y"])
VALUES = st.one_of(
    st.sampled_from(
        ["3", "4", "3,4", "nan", "-1", "0", "1e5", "gd", "gd,adam", "1:2:log3", "0.1,1", "final-loss", "½"]
    ),
    st.text(max_size=6),
)
WORDS = st.lists(st.builds("{}={}".format, KEYS, VALUES), max_size=4)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORDS)
def test_no_arguments_cause_a_traceback(command, monkeypatch, argv):
    monkeypatch.setattr(compare_command, "_write", lambda *rest: None)
    monkeypatch.setattr("quadsim._artifacts.check_folder", lambda folder: None)
    for key, default in (("case", "3"), ("max_steps", "5"), ("seed", "0..1")):
        if not any(word.startswith(f"{key}=") for word in argv):
            argv = [*argv, f"{key}={default}"]
    code, out, err = command("compare", *[word for word in argv if word not in ("max_steps=1e5", "seed=1e5")])
    assert code in (0, 2)
    assert err.count("\n") == (code == 2), err
    assert (out == "") == (code == 2)


# ---- text


@pytest.mark.parametrize("width", [70, 80, 100, 120, 140, 200])
def test_the_table_fits_the_screen(width):
    from rich.console import Console

    made = qs.compare(
        lambda seed: qs.case(3, seed=seed),
        [qs.GD(), qs.HeavyBall(momentum=0.9), qs.Adam()],
        seed=range(6),
        max_steps=60,
    )
    screen = Console(markup=False, width=width, record=True, file=io.StringIO())
    compare_report.show_comparison(screen, made)
    text = screen.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    for word in ("Heavy ball", "verdict", "no difference found", "p (Holm)", "Holm over 2"):
        assert word in " ".join(text.split())
    assert ("quartiles" in text) == (width >= 140)
    assert "…" not in text


@pytest.mark.parametrize(
    ("decades", "text"), [(0.01, "1.02×"), (0.3, "2×"), (0.5, "3.2×"), (2.15, "140×"), (3.8, "6,300×"), (19, "10¹⁹×")]
)
def test_factors_as_text(decades, text):
    assert compare_report.factor(decades) == text
