"""What is asked for: keys and their texts, as on the command line → problem, optimizers, conditions.

The same keys say what one run is and what one cell of a sweep is. Nothing here runs anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError

if TYPE_CHECKING:
    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic

RUN_KEYS = (
    "case", "spectrum", "network", "blocks", "block_size", "rule", "sign", "pool", "threshold", "kappa", "map",
    "heterogeneity", "rotation", "basis", "minimizer", "seed", "optimizers", "rules", "steps", "tol", "engine",
    "out",
)  # fmt: skip
CONDITION_KEYS = ("start", "batch", "factor", "noise", "label_noise", "schedule", "warmup", "every", "drop")
DEFAULT_OPTIMIZERS = "gd,frozen-adam,block-gd"


def read_problem(keys: dict[str, str], seed: int) -> BlockQuadratic:
    """The problem that the keys describe."""
    if ("case" in keys) == ("spectrum" in keys):
        raise InputError("give one of case= and spectrum=: for example case=3, or spectrum=1,2,3/99,100,101")
    from quadsim import cases, spectra
    from quadsim.problem import MINIMIZERS, BlockQuadratic

    kappa = grammar.real("kappa", keys["kappa"]) if "kappa" in keys else None
    rotation = grammar.real("rotation", keys.get("rotation", "1"))
    basis = keys.get("basis", "blocks")
    minimizer = checks.choice("minimizer", keys.get("minimizer", "gaussian"), MINIMIZERS)
    heterogeneity = grammar.real("heterogeneity", keys["heterogeneity"]) if "heterogeneity" in keys else None
    size = grammar.whole("block_size", keys["block_size"]) if "block_size" in keys else None
    if "case" in keys:
        number = case_number(keys["case"])
        measured = number in cases.CASES and cases.CASES[number].network is not None
        if "map" in keys and kappa is None and not measured:
            raise InputError(f"map={keys['map']} has no use without kappa=")
        if "blocks" in keys and not measured:
            raise InputError(
                f"blocks={keys['blocks']} is for a law, or for Cases 1 and 2: this case has three blocks; "
                "block_size= changes their size"
            )
        return cases.case(
            number,
            seed=seed,
            kappa=kappa,
            map=keys.get("map"),
            block_size=size,
            heterogeneity=heterogeneity,
            rotation=rotation,
            basis=basis,
            minimizer=minimizer,
            **read_sampling(keys),
        )
    for key in ("network", "rule", "sign", "pool", "threshold"):
        if key in keys:
            raise InputError(f"{key}={keys[key]} is for Cases 1 and 2, whose eigenvalues are measured")
    if "map" in keys and kappa is None:
        raise InputError(f"map={keys['map']} has no use without kappa=")
    size = 3 if size is None else size
    text, map = keys["spectrum"], checks.choice("map", keys.get("map", "affine"), spectra.MAPS)
    if re.fullmatch("[a-z-]+", text.lower()) and text.lower() not in ("nan", "inf", "infinity"):
        if "map" in keys:
            raise InputError(f"map={map} has no use: a law spans 1 to kappa by itself")
        most = spectra.MOST
        count = checks.whole("blocks", grammar.whole("blocks", keys.get("blocks", "3")), at_least=1, at_most=most)
        dim = count * checks.whole("block_size", size, at_least=1, at_most=most)
        if dim > most:
            raise InputError(f"blocks times block_size must be at most {most}, got {dim}")
        values = spectra.law(text.lower(), dim, kappa=5000.0 if kappa is None else kappa, seed=seed)
        parts = spectra.deal(values, count, 1.0 if heterogeneity is None else heterogeneity)
    else:
        for key in ("blocks", "block_size"):
            if key in keys:
                raise InputError(f"{key}={keys[key]} is for a law: spectrum={text} says the blocks itself")
        parts = spectra.by_block(grammar.blocks_of_numbers("spectrum", text))
        if heterogeneity is not None:
            pack, sizes = [value for part in parts for value in part], [part.size for part in parts]
            parts = spectra.deal(pack, sizes, heterogeneity)
        if kappa is not None:
            parts = spectra.rescale(parts, kappa, map)
    name = "own spectrum"
    if heterogeneity is not None and basis != "whole":
        name += ", heterogeneity {:g} (arrangement {} of {})".format(
            heterogeneity, *spectra.arrangement(parts, heterogeneity)
        )
    return BlockQuadratic.from_spectra(parts, seed=seed, rotation=rotation, basis=basis, minimizer=minimizer, name=name)


def read_sampling(keys: dict[str, str]) -> dict[str, Any]:
    """How eigenvalues are taken from measured spectra, as far as the keys say."""
    how: dict[str, Any] = {key: keys[key] for key in ("network", "rule", "sign") if key in keys}
    if "blocks" in keys:
        how["blocks"] = grammar.several("blocks", keys["blocks"])
    if "pool" in keys:
        how["pool"] = grammar.whole("pool", keys["pool"])
    if "threshold" in keys:
        how["threshold"] = grammar.real("threshold", keys["threshold"])
    return how


def case_number(text: str) -> int:
    from quadsim import cases

    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"case must be one of {', '.join(map(str, cases.CASES))}, got {checks.shown(text)}")
    return int(text)


def read_optimizers(keys: dict[str, str]) -> list[Optimizer]:
    """The optimizers that the keys name, with their dotted settings."""
    from quadsim import optimizers, own

    known: dict[str, str] = {}
    for path in grammar.several("rules", keys["rules"]) if "rules" in keys else []:
        for name in own.load(path):
            if known.setdefault(name, path) != path:
                raise InputError(f"optimizer {name} is in {known[name]} and in {path}: give one of them another name")
    names = [
        name.lower().replace("_", "-")
        for name in grammar.several("optimizers", keys.get("optimizers", DEFAULT_OPTIMIZERS))
    ]
    for name in names:
        checks.choice("optimizer", name, optimizers.OPTIMIZERS)
        if names.count(name) > 1:
            raise InputError(f"optimizer {name} is named twice")
    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, text in keys.items():
        if "." in key:
            owner, setting = key.split(".", 1)
            owner = checks.choice("optimizer", owner.replace("_", "-"), optimizers.OPTIMIZERS)
            if owner not in settings:
                raise InputError(f"{key}={text} has no use: {owner} is not among optimizers={','.join(names)}")
            setting, value = read_setting(key, text)
            settings[owner][setting] = value
    return [optimizers.by_name(name, **settings[name]) for name in names]


def read_setting(key: str, text: str) -> tuple[str, Any]:
    """The name of an optimizer's setting, `adam.beta2`, and its value, read as its default's kind."""
    from quadsim import optimizers

    owner, _, setting = key.partition(".")
    defaults = optimizers.OPTIMIZERS[owner]().settings()
    setting = {name.lower(): name for name in defaults}.get(setting.lower(), setting)  # keys are read without case
    default = defaults[checks.choice(f"setting of {owner}", setting, defaults)]
    if isinstance(default, bool):
        return setting, grammar.flag(key, text)
    if isinstance(default, str):
        return setting, text
    if owner == "block-gd" and "/" in text:
        return setting, tuple(grammar.real(key, item) for item in grammar.several(key, text, "/"))
    return setting, grammar.real(key, text)


def read_conditions(keys: dict[str, str]) -> dict[str, Any]:
    """Under what conditions to run: the start, the noise of gradients, the schedule of the learning rate."""
    from quadsim.noise import Noise
    from quadsim.problem import STARTS
    from quadsim.schedules import Schedule

    scales = {key: grammar.real(key, keys[key]) for key in ("noise", "label_noise") if key in keys}
    batch = grammar.whole("batch", keys["batch"]) if "batch" in keys else None
    noise = Noise(batch=batch, factor=keys.get("factor", "root"), **scales)
    if "factor" in keys and batch is None and not noise.label_noise:
        raise InputError(f"factor={keys['factor']} has no use without batch= or label_noise=")
    numbers = {key: grammar.real(key, keys[key]) for key in ("warmup", "every", "drop") if key in keys}
    schedule = Schedule(keys.get("schedule", "constant"), **numbers)
    for key in ("every", "drop"):
        if key in keys and schedule.kind != "step":
            raise InputError(f"{key}={keys[key]} has no use without schedule=step")
    start: str | float = keys.get("start", "gaussian")
    if grammar.NUMBER.fullmatch(str(start)):
        start = checks.real("start", grammar.real("start", str(start)), at_least=1e-100, at_most=1e100)
    elif start not in STARTS:
        words = f"{', '.join(STARTS)}, or a number: the Gaussian start scaled to this norm"
        raise InputError(f"start must be one of {words}, got {checks.shown(start)}")
    return {"start": start, "noise": noise, "schedule": schedule}


def read_steps(keys: dict[str, str]) -> int | None:
    """The last step to take; None where it is not said."""
    from quadsim.trajectory import MOST_STEPS

    if "steps" not in keys:
        return None
    return checks.whole("steps", grammar.whole("steps", keys["steps"]), at_least=1, at_most=MOST_STEPS)
