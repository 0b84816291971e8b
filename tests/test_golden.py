"""Fifty runs whose results are known to the last bit: `golden.json`, floats in hexadecimal.

The table was computed by the commit before the packages were arranged as they are. A change that alters a bit of it
changes results, and is declared in the changelog; `python tests/test_golden.py` then rewrites the table.

What the bits depend on. Compiled kernels use IEEE additions, multiplications, divisions, square roots and the fused
multiply-adds of `simd.py` in a fixed order, without contraction and reassociation: from the same matrices they give
the same bits on every processor. The matrices and the closed forms go through LAPACK and BLAS (OpenBLAS selects its
code by the processor); the schedules, laws and closed forms through numpy's exp, log and cos (selected by the
processor, too). `machine_bits` computes a few of these.
Where it gives what is stored in the table, every value must be the same to the last bit. Elsewhere (with OpenBLAS's
SkylakeX kernels, say) whole numbers and words must be the same, and floats but for the components of the final error
agree to `PORTABLE_TOL`; four entries of methods that amplify rounding have a "portable_tol" of their own. A slow test
compares all bits in a process with OpenBLAS's Haswell kernels, which run on every x86-64 processor with AVX2.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quadsim as qs
from quadsim.optimizers import OPTIMIZERS, by_name

PATH = Path(__file__).with_name("golden.json")
TABLE = json.loads(PATH.read_text(encoding="utf-8"))
PORTABLE_TOL = 1e-8


# The adapter from an entry of the table to calls of quadsim.


def problem(keys, **more):
    """The problem of an entry: a case, a partition of a law, or given spectra."""
    keys = keys | more
    if "case" in keys:
        return qs.case(keys.pop("case"), **keys)
    if "law" in keys:
        law, size, kappa, seed = keys.pop("law")
        keys["spectra"] = qs.partition(qs.spectra.law(law, size, kappa=kappa, seed=seed), 3, 0.5)
    return qs.BlockQuadratic.from_spectra(keys.pop("spectra"), minimizer="gaussian", **keys)


def optimizer(settings):
    return by_name(settings["name"], **{key: value for key, value in settings.items() if key != "name"})


def noise(keys):
    models = [name for name in ("gaussian", "labels") if name in keys]
    scales = tuple(keys[name] for name in models)
    given = {"model": "+".join(models), "scale": scales if len(scales) > 1 else scales[0]} if models else {}
    return qs.Noise(**given, **{key: value for key, value in keys.items() if key not in models})


def trajectory(entry):
    built, seed = problem(entry["problem"]), entry["problem"].get("seed", 0)
    options = {"seed": seed, "max_steps": entry["max_steps"], "tol": entry["tol"]}
    if "start" in entry:
        options["e0"] = built.initial_error(seed, entry["start"])
    if entry["engine"] == "closed-form":
        return qs.exact(built, optimizer(entry["optimizer"]), **options)
    options |= {"noise": noise(entry.get("noise", {})), "schedule": qs.Schedule(**entry.get("schedule", {}))}
    return qs.solve(built, optimizer(entry["optimizer"]), engine="compiled", **options)


def run(entry):
    found = trajectory(entry)
    middle = len(found.steps) // 2
    return {
        "status": str(found.status),
        "steps_to_tol": found.steps_to_tol,
        "last_step": found.last_step,
        "lr": found.lr,
        "loss": found.loss[-1],
        "grad_norm": found.grad_norm[-1],
        "middle_loss": found.loss[middle],
        "middle_log_grad_norm": found.log_grad_norm[middle],
        "error": [found.error[0], found.error[len(found.error) // 2], found.error[-1]],
    }


def constants(entry):
    built, theory = problem(entry["problem"]), qs.theory
    e0 = built.initial_error(entry["start"])
    return {
        "kappa": built.kappa,
        "kappa_eff": theory.kappa_eff(built, e0=e0),
        "r": theory.r(built, e0=e0),
        "r_within_blocks": theory.r(built, e0=e0, within_blocks=True),
        "jacobi_kappas": theory.jacobi_kappas(built),
        "norm_11": theory.norm_11(built),
        "scaling_bounds": theory.scaling_bounds(built, e0=e0),
        "diagonal_median": theory.diagonal_kappa_eff_median(9),
        "zipf_gd_loss": float(theory.zipf_gd_loss(100, 50)),
    }


def rates(entry):
    built, theory = problem(entry["problem"]), qs.theory
    e0 = built.initial_error(entry["start"])
    names = ("gd", "block-gd", "heavy-ball", "nesterov", "frozen-adam")
    return {name: theory.rate(built, by_name(name), e0=e0) for name in names} | {
        "bound": theory.bound(built, qs.HeavyBall(), [1, 10, 1000]),
        "theorem_1": theory.theorem_1(built, e0=e0),
        "lower_bound": theory.lower_bound(built),
        "block_rate": theory.block_rate(built, e0=e0),
    }


def floor(entry):
    built, theory = problem(entry["problem"]), qs.theory
    return {
        "floor": theory.floor(built, entry["lr"], entry["beta1"]),
        "sdp_value": theory.sdp_value(built).value,
        "stability_limit": theory.stability_limit(0.99, entry["beta1"]),
        "nonconvergence": theory.nonconvergence(built, entry["lr"]),
    }


def sweep(entry):
    frame = qs.sweep(**entry["keys"])
    expected = entry["expected"]
    return {name: frame[name].astype(int if name == "steps_to_tol" else float) for name in expected}


def tune(entry):
    found = qs.tune(
        lambda seed: problem(entry["problem"], seed=seed),
        optimizer(entry["optimizer"]),
        seed=entry["seed"],
        grid=entry["grid"],
        max_steps=entry["max_steps"],
    )
    frame = found.tried.sort_values("lr")
    return {name: frame[name] for name in ("lr", "median", "upper")} | {"best": found.optimizer.lr}


def compare(entry):
    found = qs.compare(
        lambda seed: problem(entry["problem"], seed=seed),
        [optimizer(settings) for settings in entry["optimizers"]],
        seed=entry["seed"],
        lrs=entry["lrs"],
        max_steps=entry["max_steps"],
        noise=noise(entry["noise"]),
    )
    return {name: found.summary[name] for name in entry["expected"]}


KINDS = {function.__name__: function for function in (run, constants, rates, floor, sweep, tune, compare)}


# Comparing bits.


def in_hex(value):
    """A value as the table has it: floats in hexadecimal, whole numbers, words and None unchanged."""
    if isinstance(value, float):
        return float(value).hex()
    if isinstance(value, np.integer):
        return int(value)
    if value is None or isinstance(value, str | int):
        return value
    return [in_hex(item) for item in value]


def recomputed(entry):
    return {name: in_hex(value) for name, value in KINDS[entry["kind"]](entry).items()}


def machine_bits():
    """A digest of what LAPACK, BLAS and numpy's functions compute on this machine."""
    rng = np.random.Generator(np.random.Philox(1))
    digest = hashlib.sha256()
    for size in (2, 3, 9, 30):
        matrix = rng.standard_normal((size, size))
        q, r = np.linalg.qr(matrix)
        values, vectors = np.linalg.eigh((q * np.arange(1.0, size + 1)) @ q.T)
        for array in (q, r, values, vectors, matrix @ matrix, matrix @ matrix[0], np.linalg.svd(matrix)[1]):
            digest.update(np.ascontiguousarray(array).tobytes())
    x = rng.uniform(0.1, 20, 1000)
    for array in (np.exp(-x), np.log(x), np.log1p(x), np.expm1(-x), np.cos(x), x**0.3, np.sqrt(x)):
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def differences(expected, found, tol=0.0):
    """One line for each value that differs: in any bit or, with a tolerance, by more than this relative difference."""
    assert expected.keys() == found.keys()
    names = [name for name in expected if not (tol and name == "error")]
    same = {name: agree(expected[name], found[name], tol) for name in names}
    return [f"{name}: {expected[name]} became {found[name]}" for name in names if not same[name]]


def agree(expected, found, tol):
    if isinstance(expected, list):
        return len(expected) == len(found) and all(agree(*pair, tol) for pair in zip(expected, found, strict=True))
    if tol and isinstance(expected, str) and isinstance(found, str) and "0x" in expected + found:
        return math.isclose(float.fromhex(expected), float.fromhex(found), rel_tol=tol)
    return expected == found


@pytest.fixture(scope="session")
def bits_match():
    return machine_bits() == TABLE["machine_bits"]


@pytest.mark.parametrize(
    "entry",
    [pytest.param(run, id=run["name"], marks=[pytest.mark.slow] if run["slow"] else []) for run in TABLE["runs"]],
)
def test_results_are_those_of_the_table(entry, bits_match):
    tol = 0.0 if bits_match else entry.get("portable_tol", PORTABLE_TOL)
    assert differences(entry["expected"], recomputed(entry), tol) == []


def test_the_table_has_fifty_runs():
    assert len(TABLE["runs"]) == 50
    compiled = {entry["optimizer"]["name"] for entry in TABLE["runs"] if entry.get("engine") == "compiled"}
    assert compiled == {name for name, kind in OPTIMIZERS.items() if kind.__module__.startswith("quadsim.")}


def test_a_changed_bit_is_reported():
    """The negative control."""
    expected = {"status": "converged", "steps_to_tol": 7, "loss": (0.1).hex(), "lr": [(0.5).hex(), (0.25).hex()]}
    next_float = math.nextafter(0.1, 1)
    assert differences(expected, dict(expected)) == []
    assert len(differences(expected, expected | {"loss": next_float.hex()})) == 1
    assert len(differences(expected, expected | {"lr": [(0.5).hex(), math.nextafter(0.25, 1).hex()]})) == 1
    assert len(differences(expected, expected | {"steps_to_tol": 8})) == 1
    assert differences(expected, expected | {"loss": next_float.hex()}, PORTABLE_TOL) == []
    assert len(differences(expected, expected | {"loss": (0.1 + 1e-8).hex()}, PORTABLE_TOL)) == 1
    assert len(differences(expected, expected | {"status": "max-steps"}, PORTABLE_TOL)) == 1


@pytest.mark.slow
def test_all_bits_with_haswell_kernels():
    environment = os.environ | {"OPENBLAS_CORETYPE": "Haswell"}
    done = subprocess.run([sys.executable, __file__, "check"], capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    if done.returncode == 3:
        pytest.skip(
            "LAPACK, BLAS or numpy's functions give other bits than those of the table, with Haswell kernels too"
        )
    assert done.stdout == "50 runs have the bits of the table\n"


def check_bits():
    """Print what differs from the table in any bit; exit code 1 if anything does, 3 if this machine has other bits."""
    if machine_bits() != TABLE["machine_bits"]:
        return 3
    changed = [
        f"{entry['name']}: {line}"
        for entry in TABLE["runs"]
        for line in differences(entry["expected"], recomputed(entry))
    ]
    print("\n".join(changed) or f"{len(TABLE['runs'])} runs have the bits of the table")
    return int(bool(changed))


def write_table():
    """Recompute the table, with the same runs."""
    lines = [json.dumps(entry | {"expected": recomputed(entry)}) for entry in TABLE["runs"]]
    head = f'{{"machine_bits": "{machine_bits()}",\n"runs": [\n'
    PATH.write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(check_bits() if sys.argv[1:] == ["check"] else write_table())
