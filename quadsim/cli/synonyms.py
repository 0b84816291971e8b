"""Names that people write for keys and flags, and how names are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SYNONYMS = {  # names that other programs use, without dashes and underscores
    **dict.fromkeys(("learningrate", "stepsize", "eta", "η"), "lr"),
    **dict.fromkeys(("niter", "iters", "iterations", "maxiter", "nsteps", "numsteps", "epochs", "steps"), "max_steps"),
    **dict.fromkeys(("conditionnumber", "condition", "cond", "κ"), "kappa"),
    **dict.fromkeys(("eigenvalues", "eigs", "eigvals", "law", "spectra"), "spectrum"),
    **dict.fromkeys(("tolerance", "rtol", "gtol"), "tol"),
    **dict.fromkeys(("opt", "opts", "optim", "methods", "method", "algo", "algorithm", "solver"), "optimizers"),
    **dict.fromkeys(("output", "outdir", "folder", "dir", "o"), "out"),
    **dict.fromkeys(("randomseed", "rngseed", "randomstate"), "seed"),
    **dict.fromkeys(("nseeds", "numseeds"), "seeds"),
    **dict.fromkeys(("net", "networkname"), "network"),
    **dict.fromkeys(("nblocks", "numblocks"), "blocks"),
    **dict.fromkeys(("noisescale", "noise.sigma", "noise.std", "noisestd", "noisesigma"), "noise.scale"),
    "batchsize": "batch",
    "database": "store",
    "db": "store",
    "epsilon": "eps",
    "ε": "eps",
    "wd": "weight_decay",
    "warmupsteps": "warmup",
    "μ": "momentum",
}
OF_COMMANDS = {  # names that are keys of other commands
    **{command: {"network": "model", "networks": "model"} for command in ("spectra", "measure")},
    **{command: {"model": "network"} for command in ("run", "cases", "tune", "sweep")},
    "compare": {"model": "network", "format": "export", "baseline": "reference"},
    "report": {"folder": "figures", "dir": "figures"},
    "merge": {"out": "store", "output": "store"},
}
FLAG_SYNONYMS = {"h": "--help", "?": "--help", "v": "--version", "n": "--dry-run"}
_GREEK = str.maketrans({"β": "beta", "α": "alpha", "τ": "tau"})


def plain(word: str) -> str:
    """A name for comparison: in lower case, without dashes and underscores, in Latin letters."""
    return re.sub(r"[-_\s]", "", word.lower()).translate(_GREEK)


def canonical(word: str, known: Iterable[str], own: Mapping[str, str] = {}) -> str:
    """The known name that a word means: other letters and dashes, singular or plural, a synonym; empty for none."""
    by_name = {plain(name): name for name in known}
    asked = plain(word)
    synonyms = (own.get(asked, ""), SYNONYMS.get(asked, ""))
    for name in (asked, *map(plain, synonyms), f"{asked}s", asked[:-1] if asked.endswith("s") else ""):
        if name in by_name:
            return by_name[name]
    return ""
