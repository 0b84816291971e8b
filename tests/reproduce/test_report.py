"""The report: complete, self-contained, small, and its content is escaped."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from quadsim.cli import main as cli
from quadsim.plots import canvas
from quadsim.reproduce import Check, Reproduction
from quadsim.reproduce.report import page

FIGURES = Path(__file__).parents[2] / "figures"
MACHINE = {"cpu": "one <with> & sign", "cores": 2, "caches": {"L1d": "32K"}, "vector_units": ["avx2"]}


def small(folder):
    """A folder with one figure."""

    def draw(tables):
        with canvas(title="A <b>title</b>", caption="how") as (figure, (axes,)):
            axes.plot(tables[""]["x"])
        return figure

    one = Reproduction(
        "zhang-four-cases", 'Somebody & "Else"', lambda fast: {"": pd.DataFrame({"x": [1, 2]})},
        lambda tables: [Check("a <script>", "1 < 2", "2 & 3", None, "because </div>")], draw,
    )  # fmt: skip
    one.make(folder, "python experiments/x.py")


def test_the_page_has_all_parts(tmp_path):
    small(tmp_path)
    text = page(tmp_path, MACHINE, {"numpy": "2.0"})
    for part in (
        "1 cannot be checked",
        "a &lt;script&gt;",
        "1 &lt; 2",
        "because &lt;/div&gt;",
        "one &lt;with&gt; &amp; sign",
        "L1d 32K",
        "numpy 2.0",
    ):
        assert part in text
    assert "Somebody &amp; &quot;Else&quot;" in text
    assert 'alt="A &lt;b&gt;title&lt;/b&gt;"' in text
    assert text.count("data:image/") == 1


def test_missing_parts_name_their_command(tmp_path):
    text = page(tmp_path, MACHINE, {})
    for command in (
        "python experiments/explorer.py",
        "python -m quadsim reproduce",
        "python -m quadsim verify out=figures",
    ):
        assert command in text


@pytest.mark.parametrize("planted", ["</script><script>alert(1)", "<!--<script>"])
def test_tags_in_the_curves_are_escaped(tmp_path, planted):
    result = json.loads((FIGURES / "explorer.json").read_text(encoding="utf-8"))
    (tmp_path / "explorer.json").write_text(json.dumps({**result, "command": planted}))
    text = page(tmp_path, MACHINE, {})
    data = re.search(r'id="curves">(.*?)</script>', text, re.DOTALL).group(1)
    assert "<" not in data
    assert json.loads(data)["command"] == planted


def test_addresses_are_escaped(tmp_path):
    small(tmp_path)
    path = tmp_path / "zhang-four-cases.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "arxiv": '"><script>alert(1)</script>'}))
    assert "<script>alert" not in page(tmp_path, MACHINE, {})


DAMAGED = [
    ("zhang-four-cases.json", "{"),
    ("zhang-four-cases.json", "null"),
    ("zhang-four-cases.json", '{"checks": [{}]}'),
    (
        "zhang-four-cases.json",
        {"checks": [{"what": "", "published": "", "measured": "", "why": "", "verdict": "so so"}]},
    ),
    ("zhang-four-cases.json", {"source": 3}),
    ("zhang-four-cases.json", {"caption": ["a list"]}),
    ("zhang-four-cases.json", {"title": "\ud800"}),
    ("zhang-four-cases.json", {"name": "../../zhang-four-cases"}),
    ("ledger.json", "{}"),
    ("ledger.json", '{"findings": [{"ok": true}]}'),
    ("explorer.json", "{}"),
    ("explorer.json", "{"),
    ("explorer.json", {"command": "\ud800"}),
]


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_damaged_file_is_reported_in_one_line(tmp_path, capsys, name, content):
    small(tmp_path)
    path = tmp_path / name
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(content if isinstance(content, str) else json.dumps({**known, **content}))
    assert cli.main(["report", f"figures={tmp_path}"]) == 2
    result = capsys.readouterr().err
    assert f"{name} is damaged" in result
    assert result.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_a_missing_picture_is_reported(tmp_path):
    small(tmp_path)
    for suffix in (".png", ".svg"):
        (tmp_path / f"zhang-four-cases{suffix}").unlink()
    text = page(tmp_path, MACHINE, {})
    assert "The picture is missing" in text
    assert "<img" not in text


def outside(text):
    """What a browser would fetch: addresses of pictures, scripts, styles, frames and fonts that are not data."""
    fetched = re.findall(r"""(?:src|srcset|poster|data)\s*=\s*["']([^"']*)""", text)
    fetched += re.findall(r"<link[^>]*href=[\"']([^\"']*)", text) + re.findall(r"url\(([^)]*)\)|@import", text)
    return [address for address in fetched if not address.startswith("data:")]


def test_nothing_is_fetched():
    text = page(FIGURES, MACHINE, {})
    without_data = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert outside(without_data) == []
    assert "default-src 'none'" in text
    assert outside(without_data.replace("</body>", '<img src="https://example.org/x.png"></body>')) != []


def test_the_page_of_all_figures_is_below_five_megabytes(tmp_path):
    path = tmp_path / "report.html"
    assert cli.main(["report", f"figures={FIGURES}", f"out={path}"]) == 0
    assert 1e5 < path.stat().st_size < 5e6
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figures=nowhere"], "is not a folder"),
        (["out=page.pdf"], "must end in .html"),
        (["outt=page.html"], "out"),
        (["now"], "is not key=value"),
        (["out.x=page.html"], "out"),
    ],
)
def test_usage_errors_are_one_line(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figures").mkdir()
    assert cli.main(["report", *arguments]) == 2
    result = capsys.readouterr()
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert list(tmp_path.rglob("*.html")) == []


def test_json(tmp_path, capsys):
    small(tmp_path)
    assert cli.main(["report", f"figures={tmp_path}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["figures"] == 1
    assert result["bytes"] == Path(result["file"]).stat().st_size
