"""Measured spectra: the library, users' files, samples from them, and the cases built on them."""

import contextlib
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim._validation import InputError
from quadsim.problems.cases import CASES
from quadsim.spectra import files
from quadsim.spectra.files import Measured, MeasuredBlock

LIBRARY = sorted(qs.spectra.library())


@pytest.fixture
def block():
    """Sixty nodes, a third of them negative, whose weights are nearly all at the smallest."""
    rng = np.random.default_rng(0)
    nodes = np.sort(np.where(rng.random(60) < 1 / 3, -1, 1) * np.geomspace(1e-6, 10, 60))
    weights = 1 / (1e-9 + abs(nodes))
    return MeasuredBlock("b", 1000, (nodes, nodes * 1.01), (weights / weights.sum(),) * 2, (np.zeros(60),) * 2)


@pytest.mark.parametrize("name", LIBRARY)
def test_shipped_spectra_record_their_provenance(name):
    measured = qs.spectra.load(name)
    assert measured.finished
    facts = measured.provenance["settings"]
    for key in ("model", "architecture", "parameters", "mode", "curvature", "steps", "probes", "seed", "versions"):
        assert facts[key], key
    assert len(facts["data"]["sha256"]) == 64
    assert facts["data"]["source"]
    assert measured.provenance["command"].startswith(f"python -m quadsim measure model={facts['model']} ")
    assert measured.provenance["date"] >= "2026"
    for one in measured.blocks.values():
        assert one.probes == facts["probes"]
        assert sum(measured.provenance["blocks"][one.name]["seconds"]) > 0
        for nodes, weights, residuals in zip(one.nodes, one.weights, one.residuals, strict=True):
            assert nodes.size == weights.size == residuals.size == min(facts["steps"], one.size)
            assert (np.diff(nodes) >= 0).all()
            assert_allclose(weights.sum(), 1, rtol=1e-12)
            assert (weights >= 0).all()
            assert (residuals >= 0).all()
        # Two probes agree on the largest magnitude: it has converged. The tolerance is that of products in float32.
        tops = [abs(nodes).max() for nodes in one.nodes]
        assert max(tops) / min(tops) < 1.02


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_measured_cases_have_condition_number_5000(number, seed):
    problem = qs.case(number, seed=seed)
    assert problem.sizes == (30,) * 4
    assert problem.kappa == 5000
    assert problem.mu == 1
    # The matrix itself: 120 eigenvalues to 1e-13 of the largest, so the smallest to 5e-10.
    assert_allclose(np.linalg.cond(problem.hessian()), 5000, rtol=1e-8)


def test_gpt2_has_its_size_and_a_loss_of_ln_of_its_vocabulary():
    facts = qs.spectra.load("gpt2").provenance
    assert facts["settings"]["parameters"] == 124_439_808
    assert abs(facts["loss"] - np.log(50257)) < 0.15


def test_scale_separates_gpt2_from_resnet18():
    """The ratio of largest magnitudes between the four blocks of Cases 1 and 2: hundreds against less than ten."""
    ratios = []
    for number in (1, 2):
        network = qs.spectra.load(CASES[number].network)
        largest = [network.block(name).largest for name in CASES[number].blocks]
        ratios.append(max(largest) / min(largest))
    assert ratios[0] > 100
    assert ratios[1] < 10


@pytest.mark.parametrize("number", [1, 2])
def test_a_measured_case_keeps_relative_ranges(number):
    """Affine: differences of eigenvalues keep their ratios, across blocks too."""
    recipe = CASES[number]
    measured = qs.spectra.load(recipe.network)
    raw = np.concatenate(qs.spectra.sample_blocks(measured, recipe.blocks, 30, seed=3))
    mapped = np.concatenate(qs.case_spectra(number, seed=3))
    slope = (mapped.max() - mapped.min()) / (raw.max() - raw.min())
    assert_allclose(mapped - mapped.min(), slope * (raw - raw.min()), rtol=1e-9, atol=1e-8)


def test_unshifted_leaves_the_ratios():
    raw = np.concatenate(qs.spectra.sample_blocks(qs.spectra.load("resnet18"), ["conv1", "fc"], 30))
    unshifted = np.concatenate(qs.case_spectra(2, blocks=["conv1", "fc"], map="unshifted"))
    assert_allclose(unshifted, raw / raw.min(), rtol=1e-12)


def test_other_keys_of_a_measured_case():
    problem = qs.case(2, blocks=["conv1", "fc"], block_size=5, sampling="mass", kappa=10.0, seed=4)
    assert problem.sizes == (5, 5)
    assert_allclose(problem.kappa, 10, rtol=1e-14)
    assert problem.name == "case 2, kappa 10, block size 5, blocks conv1 fc, sampling mass"
    alike = qs.case(2, heterogeneity=0.0)
    assert sorted(np.concatenate(alike.eigenvalues)) == sorted(np.concatenate(qs.case(2).eigenvalues))
    assert max(alike.block_kappas) > max(qs.case(2, heterogeneity=1.0).block_kappas)


@settings(max_examples=60)
@given(size=st.integers(1, 45), seed=st.integers(0, 2**40), sign=st.sampled_from(sorted(qs.spectra.SIGNS)))
def test_every_sampling_draws_as_described(size, seed, sign):
    rng = np.random.default_rng(0)
    nodes = np.sort(np.where(rng.random(60) < 0.2, -1, 1) * np.geomspace(1e-6, 10, 60))
    one = MeasuredBlock("b", 1000, (nodes,), (np.full(60, 1 / 60),), (np.zeros(60),))
    allowed = {"magnitude": abs(nodes), "signed": nodes, "positive": nodes[nodes > 0]}[sign]
    by_size = sorted(allowed, key=abs, reverse=True)
    for sampling in qs.spectra.SAMPLINGS:
        pool = {"leading": by_size[: -(-4 * size // 3)], "above": [v for v in by_size if abs(v) > 1]}.get(
            sampling, by_size
        )
        if sampling in ("leading", "ritz") and len(pool) < size:
            with pytest.raises(InputError, match="eigenvalues were asked for"):
                qs.spectra.sample(one, size, sampling=sampling, sign=sign, seed=seed)
            continue
        drawn = qs.spectra.sample(one, size, sampling=sampling, sign=sign, seed=seed)
        assert drawn.size == size
        assert (np.diff(drawn) >= 0).all()
        assert set(drawn) <= set(pool)
        if sampling in ("leading", "ritz"):
            assert len(set(drawn)) == size  # without replacement
        assert list(drawn) == list(qs.spectra.sample(one, size, sampling=sampling, sign=sign, seed=seed))


def test_leading_takes_thirty_of_the_forty_largest(block):
    forty = np.sort(abs(block.nodes[0]))[-40:]
    seen = set()
    for seed in range(60):
        drawn = qs.spectra.sample(block, 30, seed=seed)
        assert set(drawn) <= set(forty)
        seen |= set(drawn)
    assert seen == set(forty)  # each of them is drawn now and then


def test_mass_follows_the_weights(block):
    drawn = qs.spectra.sample(block, 20_000, sampling="mass", sign="signed", seed=1)
    heaviest = block.nodes[0][block.weights[0].argmax()]
    share = block.weights[0].max()
    # A binomial count: four standard deviations.
    assert abs((drawn == heaviest).mean() - share) < 4 * np.sqrt(share * (1 - share) / 20_000)


def test_blocks_are_drawn_independently():
    """A block's draw depends on its own name, not on its neighbours."""
    resnet = qs.spectra.load("resnet18")
    alone = qs.spectra.sample_blocks(resnet, ["fc"], 30, seed=5)[0]
    among = qs.spectra.sample_blocks(resnet, ["conv1", "fc"], 30, seed=5)[1]
    assert list(alone) == list(among)


def test_files_of_a_user(tmp_path):
    one, other = np.array([1.0, 2, 3]), np.array([10.0, 20])
    np.savez(tmp_path / "own.npz", one=one, other=other)
    (tmp_path / "wide.csv").write_text("one,other\n1,10\n2,20\n3,\n")
    (tmp_path / "tidy.csv").write_text("block,eigenvalue\none,1\none,2\nother,10\none,3\nother,20\n")
    (tmp_path / "bare.csv").write_text("1,10\n2,20\n3,\n")
    for name in ("own.npz", "wide.csv", "tidy.csv", "bare.csv"):
        measured = qs.spectra.load(tmp_path / name)
        assert [list(block.nodes[0]) for block in measured.blocks.values()] == [list(one), list(other)]
        problem = qs.case(1, network=str(tmp_path / name), block_size=2, kappa=7.0, pool=2)
        assert [len(part) for part in problem.eigenvalues] == [2, 2]
        assert_allclose(np.concatenate(problem.eigenvalues), [1, 4 / 3, 11 / 3, 7])


def test_a_measurement_is_written_and_read_back(tmp_path, block):
    facts = {"settings": {"steps": 60}, "finished": True, "blocks": {"b": {"size": 1000}}, "name": "net"}
    files.write(tmp_path / "net.npz", Measured("net", {"b": block}, facts))
    again = qs.spectra.load(tmp_path / "net.npz")
    assert again.provenance == facts
    for before, after in zip(block.nodes, again.blocks["b"].nodes, strict=True):
        assert (before == after).all()
    files.write(tmp_path / "two.npz", again)
    assert (tmp_path / "net.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def damaged(tmp_path):
    """Files that are not spectra, each with a part of the error message."""
    good = (tmp_path / "good.npz", tmp_path / "other")
    np.savez(good[0], a=np.arange(3.0))
    content = good[0].read_bytes()
    yield "cut.npz", content[: len(content) // 2], "truncated or not an .npz file"
    yield "text.npz", b"hello", "truncated or not an .npz file"
    yield "empty.npz", b"", "truncated or not an .npz file"
    np.savez(tmp_path / "p.npz", a=np.array([{}], dtype=object), allow_pickle=True)
    yield "pickled.npz", (tmp_path / "p.npz").read_bytes(), "pickled objects, which are never loaded"
    np.savez(tmp_path / "m.npz", a=np.ones((2, 2)))
    yield "matrix.npz", (tmp_path / "m.npz").read_bytes(), "'a' must be a vector of eigenvalues"
    np.savez(tmp_path / "n.npz", a=np.array([1, np.nan]))
    yield "nan.npz", (tmp_path / "n.npz").read_bytes(), "eigenvalues must be finite"
    np.savez(tmp_path / "f.npz", provenance=np.array("{}"), a=np.ones(3))
    yield "foreign.npz", (tmp_path / "f.npz").read_bytes(), "not written by quadsim measure, or is damaged"
    np.savez(tmp_path / "j.npz", provenance=np.array("{"))
    yield "json.npz", (tmp_path / "j.npz").read_bytes(), "not written by quadsim measure, or is damaged"
    yield "words.csv", b"a,b\n1,x\n", "line 2: 'x' is not a number"
    yield "empty.csv", b"", "is empty"
    yield "head.csv", b"a,b\n", "holds no eigenvalues"
    yield "wide.csv", b"a,b\n1,2,3\n", "line 2: 3 cells under 2 names"
    yield "twice.csv", b"a,a\n1,2\n", "two columns with the same name"
    yield "inf.csv", b"a\n1\ninf\n", "line 3: 'inf' is not a number"
    yield "large.csv", b"a\n1\n1e400\n", "eigenvalues must be finite"
    yield "index.csv", b",a\n0,5\n1,6\n", "line 2: 0 is in a column without a name"
    yield "blank.csv", b"a,b\n\n\n1,2\n3,1_000\n", "line 5: '1_000' is not a number"
    facts = {"settings": {"steps": 3}, "blocks": {"a": {"size": 3}}}
    rows = np.array([[1.0, 2.0], [0.5, 0.5], [0.0, 0.0]])
    changes = {"weights": rows * [[1], [-1], [1]], "order": rows[:, ::-1], "shape": rows[:2], "none": rows[:, :0]}
    for name, changed in changes.items():
        np.savez(tmp_path / "c.npz", provenance=np.array(json.dumps(facts)), **{"a/0": changed})
        yield f"{name}-changed.npz", (tmp_path / "c.npz").read_bytes(), "or is damaged"
    np.savez(tmp_path / "c.npz", provenance=np.array(json.dumps(facts | {"x": float("nan")})), **{"a/0": rows})
    yield "constant.npz", (tmp_path / "c.npz").read_bytes(), "or is damaged"
    np.savez(tmp_path / "c.npz", provenance=np.array(json.dumps(facts)), **{"a/5": rows})
    yield "probe.npz", (tmp_path / "c.npz").read_bytes(), "or is damaged"
    yield "binary.csv", bytes(range(256)), "not a CSV text"
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 40):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        yield "flipped.npz", bytes(flipped), ""
    yield "spectra.pkl", b"\x80\x04.", "must be an .npz or a .csv file"


def test_damaged_and_foreign_files_are_refused(tmp_path, capsys):
    from quadsim.cli import main as cli

    for name, content, sentence in damaged(tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        if name == "flipped.npz":  # one bit: either it is noticed, or it was one that does not matter
            with contextlib.suppress(InputError):
                qs.spectra.load(path)
            continue
        with pytest.raises(InputError) as caught:
            qs.spectra.load(path)
        assert sentence in str(caught.value), name
        assert cli.main(["case=1", f"network={path}", f"out={tmp_path / 'out'}"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(files.MAX_BYTES + 1))
    with pytest.raises(InputError, match="unpacks to more than"):
        qs.spectra.load(path)


def test_measure_without_torch_is_refused():
    code = (
        "import sys; sys.modules['torch'] = None; from quadsim.cli.main import main; "
        "sys.exit(main(['measure', 'model=mlp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "quadsim: measure needs torch, which is not installed: pip install 'quadsim[torch]'\n"


def test_a_block_of_zeros_is_shown(tmp_path, capsys):
    from quadsim.cli import main as cli

    # Zeros, one value only, names that a figure cannot spell or would take for formulas, values near the limits.
    for content in ("a,b\n0,1\n0,2\n0,3\n", "a\n7\n", "$x^$,漢字\n1,2\n3,4\n", "a,b\n1e-320,1\n2e-320,2\n"):
        (tmp_path / "own.csv").write_text(content, encoding="utf-8")
        assert cli.main(["spectra", f"model={tmp_path / 'own.csv'}", f"out={tmp_path}"]) == 0
        out, err = capsys.readouterr()
        assert ("mean over pairs" in out) == ("," in content)
        assert err == ""


def test_blocks_must_be_chosen_if_there_are_many(tmp_path, capsys):
    from quadsim.cli import main as cli

    names = [f"b{number}" for number in range(50)]
    (tmp_path / "own.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert cli.main(["spectra", f"model={tmp_path / 'own.csv'}", f"out={tmp_path}"]) == 2
    assert "has 50 blocks: choose up to 40 of them with blocks=" in capsys.readouterr().err


def test_the_error_for_an_unknown_network_lists_the_names():
    with pytest.raises(InputError, match=r"unknown network 'gpt3': .*resnet18"):
        qs.spectra.load("gpt3")


def test_the_spectra_command_lists_and_draws(tmp_path, capsys, monkeypatch):
    from quadsim.cli import main as cli

    monkeypatch.chdir(tmp_path)
    assert cli.main(["spectra", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["model"] for entry in listed] == LIBRARY
    assert cli.main(["spectra"]) == 0
    assert "resnet18" in capsys.readouterr().out
    (tmp_path / "own.csv").write_text("a,b\n1,10\n2,20\n3,30\n")
    for model in ("resnet18", "own.csv"):
        assert cli.main(["spectra", f"model={model}", "out=output"]) == 0
        out = capsys.readouterr().out
        assert "Jensen–Shannon distance, unscaled" in out
        stem = f"spectra-model-{model}"
        for kind in ("densities", "eigenvalues", "distances"):
            for suffix in (".png", ".svg", ".csv"):
                assert (tmp_path / f"output/{stem}-{kind}{suffix}").stat().st_size > 50, (kind, suffix)
        assert json.loads((tmp_path / f"output/{stem}.json").read_text(encoding="utf-8"))["command"].endswith(model)


def test_the_cases_command_draws_all_four(tmp_path, capsys, monkeypatch):
    from quadsim.cli import main as cli

    monkeypatch.chdir(tmp_path)
    assert cli.main(["cases", "seed=0..2", "max_steps=300", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(row["problem"], row["optimizer"]) for row in result["cases"]] == [
        (f"case {number}", name) for number in (1, 2, 3, 4) for name in ("gd", "frozen-adam")
    ]
    assert result["seed"] == [0, 1, 2]
    third = result["cases"][5]
    assert (
        third["median_steps"]
        == sorted(
            qs.solve(qs.case(3, seed=seed), qs.FrozenAdam(), seed=seed, engine="compiled").steps_to_tol
            for seed in range(3)
        )[1]
    )
    assert (tmp_path / "figures/cases-seed-0..2-max_steps-300.svg").exists()
