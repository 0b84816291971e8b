"""Reproductions: verdicts follow from the stored data and fail on planted changes."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kernels import slow_among, slow_except

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.optimizers import OPTIMIZERS
from quadsim.reproduce import Check, scripts
from quadsim.reproduce.markdown import verdict_counts
from quadsim.reproduce.records import OTHER_FIGURES, read_records

ROOT = Path(__file__).parents[2]
FIGURES, EXPERIMENTS = ROOT / "figures", ROOT / "experiments"
ORDER = list(scripts._scripts_in(EXPERIMENTS))


@pytest.fixture(autouse=True)
def _unregister_rules():
    """Unregister the rules that scripts define."""
    before = dict(OPTIMIZERS)
    yield
    for name in set(OPTIMIZERS) - set(before):
        del OPTIMIZERS[name]


def loaded(name):
    return scripts.load(EXPERIMENTS / f"{name}.py")


def test_scripts_are_listed_in_their_declared_order():
    loaded_scripts = [scripts.load(path) for path in EXPERIMENTS.glob("*.py") if "REPRODUCTION = " in path.read_text()]
    orders = [one.order for one in loaded_scripts]
    assert len(set(orders)) == len(orders) >= 18
    assert [one.name.replace("-", "_") for one in sorted(loaded_scripts, key=lambda one: one.order)] == ORDER
    slow = {one.name.replace("-", "_") for one in loaded_scripts if one.slow}
    assert slow == {name for name in ORDER if scripts.is_slow(EXPERIMENTS / f"{name}.py")}


@pytest.mark.parametrize("name", ORDER)
def test_recorded_verdicts_follow_from_the_recorded_data(name):
    one = loaded(name)
    tables, record = one.read(FIGURES)
    assert one.name == name.replace("_", "-") == record["name"]
    assert not record["fast"]
    assert [check.row() for check in one.check(tables)] == record["checks"]
    for suffix in (".png", ".svg"):
        assert (FIGURES / f"{one.name}{suffix}").stat().st_size > 5000


@pytest.mark.parametrize("name", ORDER)
def test_the_figure_is_drawn_from_the_recorded_data(name):
    one = loaded(name)
    tables, record = one.read(FIGURES)
    figure = one.draw(tables)
    assert " ".join(figure.get_suptitle().split()) == record["title"]
    assert f"experiments/{name}.py" in " ".join(figure.get_supxlabel().split())


def mutations(frame):
    """Changes planted in a table, one column at a time: scaled, reordered, or replaced by processes of other rows."""
    random = np.random.default_rng(0)
    for column in frame.columns:
        values = frame[column]
        if pd.api.types.is_bool_dtype(values):
            yield from (frame.assign(**{column: changed}) for changed in (~values, True, False))
        elif pd.api.types.is_numeric_dtype(values):
            for factor in (30.0, 1 / 30, 1.5, 0.67):
                yield frame.assign(**{column: values * factor})
            half = np.where(np.arange(len(frame)) % 2, 30.0, 1.0)
            late = np.where(np.arange(len(frame)) > len(frame) / 2, 30.0, 1.0)
            for weights in (half, 1 / half, late, 1 / late):
                yield frame.assign(**{column: values * weights})
            yield frame.assign(**{column: values.to_numpy()[::-1]})
            yield frame.assign(**{column: random.permutation(values.to_numpy())})
            yield frame.assign(**{column: values.median()})
            yield frame.assign(**{column: values + 1})
            yield frame.assign(**{column: 0 * values})
            for other in frame.columns:  # scale the rows of one kind
                kinds = list(dict.fromkeys(frame[other].dropna())) if frame[other].nunique() <= 12 else []
                for kind in kinds if other != column else ():
                    for factor in (30.0, 1 / 30):
                        rows = (frame[other] == kind).to_numpy()
                        yield frame.assign(**{column: values * np.where(rows, factor, 1.0)})
        else:
            kinds = list(dict.fromkeys(values.dropna()))
            yield frame.assign(**{column: values.to_numpy()[::-1]})
            if 1 < len(kinds) <= 30:
                yield frame.assign(**{column: values.map(dict(zip(kinds, kinds[::-1], strict=True)))})
                for kind in kinds:
                    yield frame.assign(**{column: kind})


# Checks that take at least a second each.
LONG_CHECKS = (
    "orvieto_gower_eps", "das_preconditioning", "orvieto_gower", "adam_mini_scaling", "zhang_js_gap", "float64_trap",
    "batch_crossover", "adam_mini_blockwise",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_among(ORDER, *LONG_CHECKS))
def test_every_check_fails_on_a_planted_change(name):
    """For each decided verdict some change of the data gives another one."""
    one = loaded(name)
    tables, record = one.read(FIGURES)
    firm = {row["what"]: row["verdict"] for row in record["checks"] if row["verdict"] != "cannot be checked"}
    stubborn = set(firm)
    for suffix, frame in tables.items():
        for changed in mutations(frame):
            if not stubborn:
                return
            try:
                with np.errstate(all="ignore"):
                    rows = [check.row() for check in one.check({**tables, suffix: changed})]
            except Exception:  # an invalid table has no verdict
                continue
            stubborn -= {row["what"] for row in rows if row["verdict"] != firm.get(row["what"])}
    assert not stubborn


def test_every_script_has_its_record_and_every_other_figure_its_files():
    assert len(read_records(FIGURES)) == len(ORDER)
    for name in OTHER_FIGURES:
        assert json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))["title"]
        assert (FIGURES / f"{name}.png").is_file()


def test_a_reason_is_given_unless_reproduced():
    assert Check("a", "1", "1", True, "not shown").row()["why"] == ""
    assert Check("a", "1", "2", False).row()["why"] == "not explained"
    assert Check("a", "1", "2", False, "two is not one").row()["verdict"] == "differs"
    assert Check("a", "?", "2", None, "unknown").row()["verdict"] == "cannot be checked"
    assert Check("a", "1", "1", np.bool_(True)).verdict == "reproduced"


SCRIPT = """
import pandas as pd
from quadsim import plots
from quadsim.reproduce import Check, Reproduction

def measure(fast):
    {body}
    return {{"": pd.DataFrame({{"x": [1.0, {value}]}})}}

def check(tables):
    x = tables[""]["x"]
    return [Check("the second", "2", f"{{x[1]:g}}", x[1] == 2)]

def draw(tables):
    with plots.canvas(title="A finding", caption="how") as (figure, (axes,)):
        axes.plot(tables[""]["x"])
    return figure

REPRODUCTION = Reproduction("{name}", "Somebody, figure 1", measure, check, draw)
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder like a clone, with one quick script under the name of the first one."""
    (tmp_path / "experiments").mkdir()
    monkeypatch.chdir(tmp_path)

    def write(value="2.0", body="pass", name=ORDER[0]):
        path = tmp_path / "experiments" / f"{name}.py"
        path.write_text(SCRIPT.format(value=value, body=body, name=name.replace("_", "-")))
        return path

    write()
    return write


def reproduce(*arguments):
    return cli.main(["reproduce", *arguments])


def test_a_full_run_writes_figure_data_and_verdict(clone, capsys):
    assert reproduce(ORDER[0]) == 0
    stem = f"figures/{ORDER[0].replace('_', '-')}"
    for suffix in (".png", ".svg", ".csv", ".json"):
        assert Path(stem + suffix).is_file()
    made = json.loads(Path(stem + ".json").read_text())
    assert made["checks"] == [
        {"what": "the second", "published": "2", "measured": "2", "why": "", "verdict": "reproduced"}
    ]
    assert made["title"] == "A finding"
    assert made["versions"]["numpy"]
    printed = capsys.readouterr().out
    assert "published" in printed
    assert "reproduced" in printed


def test_fast_runs_do_not_change_figures(clone):
    assert reproduce(ORDER[0], "fast=true") == 0
    assert [entry.name for entry in Path("figures").iterdir()] == ["fast"]


def test_a_verdict_that_differs_from_the_recorded_one_is_reported(clone, capsys):
    assert reproduce(ORDER[0]) == 0
    clone(value="3.0")
    assert reproduce(ORDER[0], "fast=true") == 1
    assert "not as recorded" in capsys.readouterr().err
    clone()
    assert reproduce(ORDER[0], "fast=true") == 0


def test_redraw_uses_the_stored_data(clone):
    assert reproduce(ORDER[0]) == 0
    clone(body="raise RuntimeError('not to be run')")
    assert reproduce(ORDER[0], "redraw=true") == 0
    path = Path("figures") / f"{ORDER[0].replace('_', '-')}.csv"
    path.write_text("x\n1.0\n5.0\n")
    assert reproduce(ORDER[0], "redraw=true") == 1
    assert "differs" in path.with_suffix(".json").read_text()


def test_what_takes_long_is_measured_on_request_only(clone, capsys):
    path = clone()

    def write(value="2.0"):
        text = clone(value=value).read_text()
        path.write_text(text.replace("measure, check, draw)", "measure, check, draw, on_request=True)"))

    write()
    assert reproduce(ORDER[0]) == 1
    assert "measure it with measure=true" in capsys.readouterr().err
    assert reproduce(ORDER[0], "measure=true") == 0
    record = Path("figures") / f"{ORDER[0].replace('_', '-')}.json"
    assert json.loads(record.read_text())["command"].endswith(f"{ORDER[0]}.py measure=true")
    tables = contents(Path("figures"))
    write(value="3.0")  # a measurement would differ
    for arguments in ([], ["fast=true"], ["out=other"]):
        assert reproduce(ORDER[0], *arguments) == 0
    assert contents(Path("figures")).items() >= tables.items()
    for folder in ("figures/fast", "other"):
        assert (Path(folder) / record.name).with_suffix(".csv").read_text() == record.with_suffix(".csv").read_text()
    assert reproduce(ORDER[0], "measure=true") == 1
    assert "not as recorded" in capsys.readouterr().err
    assert reproduce(ORDER[0], "measure=true", "redraw=true") == 2


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_script_that_fails_does_not_stop_the_others(clone, capfd, workers):
    clone(name=ORDER[1], body="raise RuntimeError('a broken script')")
    assert reproduce(*ORDER[:2], f"workers={workers}") == 1
    printed = capfd.readouterr()
    assert printed.err.count("a broken script") == 1
    assert f"{ORDER[1]}.py:7" in printed.err
    assert "1 of 2 figures" in printed.out
    assert Path(f"figures/{ORDER[0].replace('_', '-')}.json").is_file()


def test_json_prints_nothing_else(clone, capsys):
    assert reproduce(ORDER[0], "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["figures"][0]["name"] == ORDER[0].replace("_", "-")
    assert printed["failed"] == printed["changed"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zhang_four_case"], "zhang_four_cases"),
        (["fats=true"], "fast"),
        (["fast=maybe"], "true"),
        (["workers=0"], "workers"),
        (["experiments/none.py"], "No such file"),
        ([ORDER[1]], "unknown figure"),
        ([ORDER[0], "redraw=true"], "without redraw=true"),
        ([ORDER[0], "fast.x=true"], "fast"),
    ],
)
def test_usage_errors_are_one_line_and_write_nothing(clone, capsys, arguments, sentence):
    assert reproduce(*arguments) in (1, 2)
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert not list(Path().rglob("*.png"))


def test_without_a_clone_the_missing_scripts_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scripts, "CLONE", tmp_path)
    assert reproduce() == 2
    assert "clone" in capsys.readouterr().err


def test_a_script_without_a_reproduction_is_refused(clone, capsys):
    Path("experiments/plain.py").write_text("x = 1\n")
    assert reproduce("experiments/plain.py") == 1
    assert "has no REPRODUCTION" in capsys.readouterr().err


@pytest.mark.parametrize("workers", slow_except(["1", "2"], "1"))
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("raise ValueError('one\\ntwo')", "one two"),
        ("print('to standard output'); fast = 1 / 0", "ZeroDivisionError"),
    ],
)
def test_errors_of_a_script_are_one_line_and_other_scripts_run(clone, capfd, workers, body, sentence):
    clone(name=ORDER[1], body=body)
    assert reproduce(*ORDER[:2], f"workers={workers}", "--json") == 1
    printed = capfd.readouterr()
    assert sentence in printed.err
    assert len([line for line in printed.err.splitlines() if line.startswith("quadsim:")]) == 1
    made = json.loads(printed.out)
    assert [one["name"] for one in made["figures"]] == [ORDER[0].replace("_", "-")]
    assert made["failed"] == [ORDER[1]]


@pytest.mark.slow
def test_a_killed_worker_does_not_stop_other_figures(clone, capfd):
    clone(name=ORDER[1], body="import os; os._exit(0)")
    clone(name=ORDER[2])
    assert reproduce(*ORDER[:3], "workers=2") == 1
    printed = capfd.readouterr()
    assert "2 of 3 figures" in printed.out
    assert printed.err.count("its process was ended") == 1


@pytest.mark.parametrize(
    ("line", "other", "sentence"),
    [
        ("x[1] == 2)", '"no")', "True, False or None"),
        ("x[1] == 2)", 'float("nan"))', "True, False or None"),
        ('return [Check("the second", "2", f"{x[1]:g}", x[1] == 2)]', "return []", "has no checks"),
        ('title="A finding"', 'title=""', "has no title"),
        ('"the second"', "2", "must be text"),
        ('Reproduction("zhang-four-cases"', 'Reproduction("../evil"', "is not a valid name of files"),
    ],
)
def test_invalid_scripts_are_reported(clone, capsys, line, other, sentence):
    path = clone()
    assert line in path.read_text()
    path.write_text(path.read_text().replace(line, other))
    assert reproduce(ORDER[0]) == 1
    assert sentence in capsys.readouterr().err
    assert not list(Path().rglob("*.png"))


def test_fast_figures_do_not_replace_full_ones(clone, capsys):
    assert reproduce(ORDER[0], "fast=true", "out=figures") == 2
    assert "too few draws" in capsys.readouterr().err


def test_a_damaged_record_is_recomputed(clone):
    assert reproduce(ORDER[0]) == 0
    path = Path(f"figures/{ORDER[0].replace('_', '-')}.json")
    path.write_text("{")
    assert reproduce(ORDER[0]) == 0
    assert json.loads(path.read_text())["checks"]


def test_script_and_figure_may_have_different_names(clone, capsys):
    other = Path("experiments/other.py")
    other.write_text(clone().read_text().replace("zhang-four-cases", "something-else"))
    assert reproduce(str(other)) == 0
    assert Path("figures/something-else.png").is_file()


def test_duplicate_arguments_run_once(clone, capsys):
    assert reproduce(ORDER[0], ORDER[0].replace("_", "-"), f"experiments/{ORDER[0]}.py", "workers=2") == 0
    assert "1 of 1 figures" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(clone, number):
    for name in ORDER[:2]:
        clone(name=name, body="import os, time; open(f'{os.getpid()}.pid', 'w').close(); time.sleep(60)")
    process = subprocess.Popen([sys.executable, "-m", "quadsim", "reproduce", *ORDER[:2], "workers=2"])
    while len(list(Path().glob("*.pid"))) < 2:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=30) == (143 if number == signal.SIGTERM else -9)
    processes = [Path("/proc") / path.stem for path in Path().glob("*.pid")]
    until = time.monotonic() + 20
    while any(alive(one) for one in processes) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(alive(one) for one in processes)
    assert not list(Path().rglob("*.png")) + list(Path().rglob(".draft-*"))


def alive(process):
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_ctrl_c_ends_the_processes(clone):
    for name in ORDER[:2]:
        clone(name=name, body="import time; time.sleep(60)")
    line = [sys.executable, "-m", "quadsim", "reproduce", *ORDER[:2], "workers=2"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=30)
    assert process.returncode == 130
    assert printed == "quadsim: interrupted\n"
    assert not list(Path().rglob("*.png"))


def test_the_count_of_verdicts():
    def records(*verdicts):
        return [{"checks": [{"verdict": verdict} for verdict in verdicts]}]

    assert verdict_counts(4 * records("differs")) == "4 differ"
    assert verdict_counts(records("reproduced", "differs", "reproduced")) == "2 reproduced, 1 differs"


def test_labels_beside_a_panel_are_moved_apart():
    with plots.canvas(title="t", caption="c") as (_, (axes,)):
        axes.set(xlim=(0, 1), ylim=(0, 1))
        plots.label_right(axes, [(0.5, "a", "#000000"), (0.5, "b", "#000000"), (0.51, "c", "#000000")])
    heights = [text.xy[1] for text in axes.texts if text.get_text()]
    assert len(set(heights)) == 3
    assert min(np.diff(sorted(heights))) > 0.03


class Planted:
    """quadsim with some names replaced."""

    def __init__(self, **changed):
        self.__dict__ |= changed

    def __getattr__(self, name):
        return getattr(qs, name)


def test_swapped_cases_are_detected(monkeypatch):
    """The measurement is changed instead of the data: Cases 3 and 4 are swapped, as the Magma line names them."""
    one = loaded("zhang_four_cases")

    def case(number, **settings):
        return qs.case({1: 1, 2: 2, 3: 4, 4: 3}[number], **settings)

    monkeypatch.setitem(one.measure.__globals__, "qs", Planted(case=case))
    found = {check.what[:6]: check.verdict for check in one.check(one.measure(True))}
    assert found["Case 3"] == found["Case 4"] == "differs"
    assert found["Case 1"] == "reproduced"


@pytest.mark.slow
def test_a_wrong_learning_rate_is_detected(monkeypatch):
    """Adam runs at 1.05 times the learning rate in the table: its floor is then 10 % above the law."""
    one = loaded("adam_floor")
    planted = Planted(Adam=lambda lr, **settings: qs.Adam(lr=1.05 * lr, **settings))
    monkeypatch.setitem(one.measure.__globals__, "qs", planted)
    found = {check.what: check.verdict for check in one.check(one.measure(True))}
    assert found["Case 3, floor/((η²/8)·tr(H))"] == "differs"


def test_a_relative_error_of_1e_6_in_a_formula_is_detected(monkeypatch):
    one = loaded("rotation_axis")

    class Theory:
        def __getattr__(self, name):
            return getattr(qs.theory, name)

        def kappa_eff_2d(self, *arguments):
            return qs.theory.kappa_eff_2d(*arguments) * (1 + 1e-6)

    monkeypatch.setitem(one.measure.__globals__, "theory", Theory())
    found = {check.what: check.verdict for check in one.check(one.measure(True))}
    assert found.pop("2-D, κ_eff") == "differs"
    assert "reproduced" in found.values()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("arguments", [[], ["fast=true"], ["out=other"], ["out=other", "fast=true"]], ids=str)
def test_a_run_from_another_folder_writes_only_there(clone, tmp_path, monkeypatch, arguments):
    assert reproduce(ORDER[0]) == 0
    before = contents(tmp_path)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(scripts, "CLONE", tmp_path)
    assert reproduce(ORDER[0], *arguments) == 0
    assert contents(tmp_path) == before
    folder = "other" if "out=other" in arguments else "figures/fast" if "fast=true" in arguments else "figures"
    assert sorted({str(path.parent.relative_to(elsewhere)) for path in contents(elsewhere)}) == [folder]


def test_an_unrelated_folder_of_experiments_is_not_taken_for_the_scripts(tmp_path, monkeypatch, capsys):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/mine.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    (found,) = scripts.find([ORDER[0]])
    assert found.parent == EXPERIMENTS
    monkeypatch.setattr(scripts, "CLONE", tmp_path / "site-packages")
    assert reproduce() == 2
    assert "are not installed with the package" in capsys.readouterr().err


def test_no_script_writes_beside_itself():
    """Figures go to the working folder, wherever the scripts are."""
    for path in EXPERIMENTS.glob("*.py"):
        assert not re.search("__file__.*figures", path.read_text(encoding="utf-8")), path.name
