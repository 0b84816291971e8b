"""Do two checkouts of quadsim compute and draw the same? Run everything in both, then compare bit by bit.

    python experiments/compare_releases.py record CHECKOUT FOLDER    about ten minutes on two idle cores
    python experiments/compare_releases.py compare FOLDER_OLD FOLDER_NEW

`record` copies the checkout to FOLDER, deletes its figures and recomputes them: `reproduce`, `verify`, `cases` with 100
seeds, the README's sweep and the other experiments. `compare` reads the tables and the settings of both folders. Under
the renames below, all numbers must be equal to the last bit; timings, versions and the wording of texts are left out.
Of every axes of a figure the limits, the scales and the data of the artists must be equal. Exits with 1 if not.
"""

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SWEEP = "case=3,4 kappa=10:1e6:log25 optimizers=gd,frozen-adam,heavy-ball seed=0..29 store=figures/readme-sweep.db"
COMMANDS = [
    "-m quadsim reproduce out=figures",
    "-m quadsim verify out=figures",
    "-m quadsim cases {seeds} out=figures",
    "-m quadsim case=1 out=figures",
    "-m quadsim case=2 optimizers=gd,adam {steps}=3000 batch=7 out=figures",
    f"-m quadsim sweep {SWEEP}",
    "-m quadsim export figures/readme-sweep.db out=figures/readme-sweep.csv",
    "-m quadsim compare case=3,4 optimizers=sgd,signum,adam {seeds_30} batch=3 out=figures",
    *(f"experiments/{name}.py" for name in ("sweeps", "recipes", "measured", "explorer", "case_medians")),
    "experiments/theory_figures.py figures",
    "experiments/interval_coverage.py",
]
WORDS = {  # of both releases, by the version from which on the second one holds
    "0.8.0": (
        {"steps": "steps", "seeds": "seeds=100", "seeds_30": "seeds=30"},
        {"steps": "max_steps", "seeds": "seed=0..99", "seeds_30": "seed=0..29"},
    )
}
RENAMED_FILES = {"seeds-100": "seed-0..99", "seeds-30": "seed-0..29", "-steps-3000": "-max_steps-3000"}
RENAMED_COLUMNS = {"rule": "sampling", "basis": "span", "steps": "max_steps"}
RENAMED_WORDS = {"exact": "closed-form", "iterate": "compiled"}
REPLACED_COLUMNS = {
    "noise",
    "label_noise",
    "noise.scale",
    "basis",
}  # one number each before, a model and its scale now; new
IGNORED = {"seconds", "versions", "version", "began", "ended", "command", "files", "took", "machine", "cpu", "done"}
TEXTS = (".md", ".html", ".png", ".svg", ".db")  # generated texts, drawings and stores: compared by their data

DUMP = """
import atexit, hashlib, json, os, sys
def _describe(axes):
    import numpy as np
    data = []
    for line in axes.lines:
        data.append(np.asarray(line.get_xydata(), float))
    for one in axes.collections:
        parts = [np.asarray(one.get_offsets(), float), *(np.asarray(p.vertices, float) for p in one.get_paths())]
        if one.get_array() is not None:
            parts.append(np.ma.filled(np.ma.asarray(one.get_array(), float), np.nan))
        data += parts
    for one in axes.images:
        data.append(np.ma.filled(np.ma.asarray(one.get_array(), float), np.nan))
    for one in axes.patches:
        data.append(np.asarray(one.get_path().vertices, float) if not hasattr(one, "get_width") else
                    np.array([*one.get_xy(), one.get_width(), one.get_height()], float))
    hashes = sorted(hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:12] for a in data)
    return {"x": [float(v).hex() for v in axes.get_xlim()], "y": [float(v).hex() for v in axes.get_ylim()],
            "scales": [axes.get_xscale(), axes.get_yscale()], "artists": hashes,
            "labels": [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]}
def _patch():
    from matplotlib.figure import Figure
    original = Figure.savefig
    def savefig(self, *args, **options):
        original(self, *args, **options)
        text = json.dumps([_describe(axes) for axes in self.axes])
        name = hashlib.sha256(text.encode()).hexdigest()[:16] + ".json"
        with open(os.path.join(os.environ["QUADSIM_AXES"], name), "w") as file:
            file.write(text)
    Figure.savefig = savefig
_patch()
"""  # a sitecustomize module: it stores the drawn data of every figure that is saved


def record(checkout: Path, folder: Path) -> int:
    if folder.exists():
        raise SystemExit(f"{folder} exists: give a new folder")
    shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
    shutil.rmtree(folder / "figures")
    (folder / "figures").mkdir()
    (folder / "hook").mkdir()
    (folder / "axes").mkdir()
    (folder / "hook/sitecustomize.py").write_text(DUMP)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder.resolve()), str((folder / "hook").resolve())]),
        "QUADSIM_AXES": str((folder / "axes").resolve()),
    }
    version = re.search(r'^version = "(.*)"', (folder / "pyproject.toml").read_text(), re.M)[1]
    before, since = WORDS["0.8.0"]
    spelling = since if tuple(map(int, version.split("."))) >= (0, 8, 0) else before
    failed = 0
    for number, command in enumerate(COMMANDS):
        words = [word.format(**spelling) for word in command.split()]
        print(" ".join(words), flush=True)
        done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
        (folder / "figures" / f"stdout-{number:02}.txt").write_text(done.stdout)
        if done.returncode:
            failed += 1
            print(f"  exit code {done.returncode}: {done.stderr[-300:]}", flush=True)
    return int(failed > 0)


def renamed(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def cells(path: Path) -> dict[str, list[str]]:
    """The columns of a table under their new names, words in the new spelling."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    found = dict(zip(head, zip(*rows, strict=True) if rows else [()] * len(head), strict=True))
    sweep_table = "spectrum" in found or "lr_from" in found
    names = {old: new for old, new in RENAMED_COLUMNS.items() if new not in found and sweep_table}
    return {names.get(name, name): [RENAMED_WORDS.get(v, v) for v in values] for name, values in found.items()}


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "True", "False")
    return True


def leaves(value, path=()):
    """Numbers of a JSON file by their path, without what may differ."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in IGNORED:
                yield from leaves(item, (*path, RENAMED_COLUMNS.get(key, key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    elif isinstance(value, int | float):
        yield path, value


def numbers_of(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])[-−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", text)


def compare_csv(old: Path, new: Path) -> tuple[int, list[str], list[str]]:
    """Compared numbers; differences; columns of words that differ."""
    before, after = cells(old), cells(new)
    count, different, reworded = 0, [], []
    for name in before.keys() | after.keys():
        if name in IGNORED:
            continue
        if name in REPLACED_COLUMNS and before.get(name) != after.get(name):
            reworded.append(f"{name} (replaced)")
            continue
        if name not in before or name not in after:
            different += [f"column {name} only in the {'new' if name in after else 'old'} table"]
            continue
        pair = before[name], after[name]
        numeric = all(map(is_number, (*pair[0], *pair[1])))
        count += len(pair[0]) if numeric else 0
        if pair[0] != pair[1]:
            rows = sum(a != b for a, b in zip(*pair, strict=False)) + abs(len(pair[0]) - len(pair[1]))
            values = sum(numbers_of(a) != numbers_of(b) for a, b in zip(*pair, strict=False))
            (different if numeric else reworded).append(f"{name} ({rows} rows, of {values} the numbers)")
    return count, different, reworded


def compare(old: Path, new: Path) -> int:
    files = {renamed(path.name, RENAMED_FILES): path for path in sorted((old / "figures").iterdir())}
    others = {path.name: path for path in sorted((new / "figures").iterdir())}
    bad = total = 0
    for name in sorted(files.keys() | others.keys()):
        if name.endswith(TEXTS) or "report" in name:
            continue
        if name not in files or name not in others:
            bad += 1
            print(f"{name}: only in the {'new' if name in others else 'old'} folder")
            continue
        pair = files[name], others[name]
        different, reworded = [], []
        if name.endswith(".csv"):
            count, different, reworded = compare_csv(*pair)
        elif name.endswith(".json"):
            before, after = (dict(leaves(json.loads(path.read_text()))) for path in pair)
            count = len(before.keys() & after.keys())
            different = [".".join(map(str, key)) for key in before if key in after and before[key] != after[key]]
            reworded = [".".join(map(str, key)) for key in before.keys() ^ after.keys()]
        else:
            texts = [numbers_of(path.read_text()) for path in pair]
            count, reworded = len(texts[0]), [] if texts[0] == texts[1] else ["numbers of the printed text"]
        total += count
        bad += bool(different)
        notes = [f"DIFFER {', '.join(different[:6])}"] * bool(different)
        notes += [f"words or keys only: {', '.join(sorted(reworded)[:8])}"] * bool(reworded)
        print(f"{name}: {count:,} numbers{'; ' if notes else ''}{'; '.join(notes)}")
    bad += compare_axes(old / "axes", new / "axes")
    print(f"{total:,} numbers compared; {'no difference' if not bad else f'{bad} files or axes differ'}")
    return int(bad > 0)


def compare_axes(old: Path, new: Path) -> int:
    """Compare the drawn data of all axes; labels may be worded differently."""
    counts = []
    for folder in (old, new):
        axes = [one for path in sorted(folder.glob("*.json")) for one in json.loads(path.read_text())]
        counts.append({json.dumps({k: v for k, v in one.items() if k != "labels"}): one["labels"] for one in axes})
    only_old, only_new = (counts[k].keys() - counts[1 - k].keys() for k in (0, 1))
    print(f"axes: {len(counts[0])} old, {len(counts[1])} new, {len(counts[0].keys() & counts[1].keys())} in both")
    for mark, keys, labels in (("old", only_old, counts[0]), ("new", only_new, counts[1])):
        for key in keys:
            print(f"  only {mark}: {labels[key]} {hashlib.sha256(key.encode()).hexdigest()[:8]}")
    return len(only_old) + len(only_new)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "compare"):
        raise SystemExit(__doc__)
    sys.exit({"record": record, "compare": compare}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3])))
