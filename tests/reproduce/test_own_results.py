"""The report shows the user's own results beside published figures."""

import os

import pytest

from quadsim.cli.main import main


def test_the_report_shows_results_of_other_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["case=3", "optimizers=gd", "max_steps=5", "out=mine"]) == 0
    (tmp_path / "mine/other.json").write_text('{"command": "none"}')  # without a picture
    os.mkfifo(tmp_path / "mine/pipe.json")  # to open it would block
    (tmp_path / "mine/folder.json").mkdir()
    (tmp_path / "mine/missing.json").symlink_to("none")
    capsys.readouterr()
    assert main(["report", "figures=mine"]) == 0
    assert "1 result of yours, 0 published figures" in " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "mine/report.html").read_text(encoding="utf-8")
    assert "python -m quadsim case=3 optimizers=gd max_steps=5" in page
    assert page.count('<section class="figure"') == 1


@pytest.mark.parametrize("kind", ["optimizers", "claims", "networks"])
def test_list_is_short_and_a_list_is_complete(capsys, kind):
    assert main(["list"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 25
    assert all(len(line) <= 120 for line in short.splitlines())
    assert main(["list", kind]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 5
