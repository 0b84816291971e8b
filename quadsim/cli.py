"""The command line: words → calls. No logic of its own: what can be said here can be called from Python.

Modules that take long to import are imported where they are used.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence

from quadsim import checks, grammar
from quadsim.checks import InputError

HELP = """\
quadsim: optimizers on block-diagonal quadratics whose spectra you control

  python -m quadsim case=1                    GD, Adam (β2 = 1) and block GD on Case 1: table, figure, data
  python -m quadsim cases seeds=100           the four cases side by side, medians and quartiles over 100 draws
  python -m quadsim case=4 kappa=100 seed=7   another condition number, another draw
  python -m quadsim spectrum=1,2,3/99,100,101 optimizers=gd,adam adam.lr=0.01 adam.beta2=0.99
  python -m quadsim spectrum=log-uniform blocks=4 block_size=30 kappa=1e4 heterogeneity=0
  python -m quadsim compare case=3,4 optimizers=gd,adam   tuned on 30 draws, compared on 30 others, paired
  python -m quadsim sweep case=3,4 kappa=10:1e6:log25 seed=0..29   every combination, into a store; plot draws it
  python -m quadsim spectra model=gpt2        a measured network: densities, eigenvalues, distances between blocks
  python -m quadsim measure model=gpt2 text=FILE   measure one yourself (needs quadsim[torch])
  python -m quadsim verify                    every claim of the theory: its evidence and its verdict
  python -m quadsim reproduce                 the published figures made anew, each with its verdicts
  python -m quadsim report                    verdicts, figures, claims on one page that opens from disk
  python -m quadsim bench                     this machine: quadsim beside numpy, torch.optim and optax
  python -m quadsim list                      the cases, optimizers, laws, measured networks and claims there are

The problem
  case=N              1 to 4: the cases of arXiv 2402.16788
  spectrum=a,b/c,d    or your own: each block's eigenvalues, or a law's name (see list)
  blocks=N block_size=N   for a law: how many blocks, of what size (3 and 3); block_size also for a case
  kappa=K             take the eigenvalues to condition number K
  map=M               by affine (Cases 1 and 2, own spectra), clusters (Cases 3 and 4), geometric, or unshifted
                      (Cases 1 and 2 with their own condition number)
  heterogeneity=H     deal the same eigenvalues to blocks: 1 sorted chunks, 0 round-robin; between them there are
                      finitely many distinct arrangements, 5 in all for three blocks of 3, 51 for three of 30
  rotation=R          0 diagonal blocks, 1 Haar bases (1)
  basis=B             blocks, or whole: one basis that dissolves the blocks (blocks)
  minimizer=M         gaussian: drawn from the seed, or zero, where weight decay pulls to the answer (gaussian)
  seed=N              fixes problem and start (0)

For Cases 1 and 2
  network=NAME        measured spectra (see spectra), or a file of your own (.npz, .csv)
  blocks=a,b          which of its blocks
  rule=R              how eigenvalues are drawn: leading, ritz, mass, above (leading)
  pool=N threshold=T  leading: from the N largest (4/3 of block_size); above: T of the largest (0.1)
  sign=S              magnitude, signed or positive (magnitude)

The run
  optimizers=a,b      of gd, block-gd, heavy-ball, nesterov, sgd, frozen-adam, adam, adamw, amsgrad, nadam,
                      adam-variance, rmsprop, adagrad, signgd, signum, lion, adam-mini, adasgd, muon, skip-update, magma
                      (gd,frozen-adam,block-gd)
  rules=FILE          and of your own: a Python file of functions with @quadsim.rule before them
  NAME.SETTING=V      an optimizer's own setting: gd.lr=1e-4 adam.beta1=0 block-gd.lr=0.5/0.01/2e-4
  engine=E            exact: closed form, at any step up to 1e12; iterate: step by step
                      (exact where there is a closed form: gd, block-gd, heavy-ball, nesterov, frozen-adam, no noise)
  steps=N             the last step to take (as many as it takes; 100000 where steps are iterated, or tol=0)
  tol=T               stop at gradient norm T times its first value (1e-6); 0 runs on
  start=S             the initial error w0 - w*: gaussian, ones, or a number: the Gaussian one scaled to this norm
                      (gaussian)
  batch=K factor=F    gradients of K rows of X, XᵀX/n = H, drawn without replacement; X = √n·H^½ (root) or √n·√Λ·Uᵀ
                      (rotated)
  noise=S             Gaussian noise of scale S on each component of the gradient
  label_noise=S       least squares whose labels have noise of scale S, drawn afresh at each step
  schedule=S          of the learning rate: constant, cosine, linear, sqrt (1/√t), step (every=N drop=0.1)
  warmup=N            its linear warm-up: steps, or a share of them (0.1 for cosine, 0 otherwise)
  out=FOLDER          where figure, tables and settings go (figures)

cases     case=a,b seeds=N (or i..j) kappa rotation, and the keys of the run
compare   case=3,4 (and the keys of a problem) optimizers=a,b seeds=N (or i..j) tuning_seeds=N (or i..j; as many, after
          those) reference=NAME objective=final-loss|steps-to-tol|mean-log-loss steps=500 tol level=0.95;
          lrs=1e-4:1:log9 (or a,b,…) for all, or NAME.lr=a,b NAME.beta2=a,b: what to try; refine=3 extend=4: rounds of
          midpoints around the best lr, decades beyond the edge of the grid
tune      the same without tuning_seeds, reference and level: only the best learning rates
sweep     any key of the problem and the run, and NAME.SETTING, may be an axis: a,b,… a:b:log25 a:b:lin21 0..29 (none
          leaves the key out; several numeric spectra are parted by a semicolon); store=FILE.db (the same command
          continues; what is there is not run again) limit=N (cells) retry=true (run what failed again);
          threads=N, workers=N (processes), or cluster=local:4|tcp://host:port|tls://host:port (Dask);
          --dry-run shows the plan
status    store=FILE: its sweeps, how far they are, how cells ended, which rows can be reused (rules=FILE: a user's too)
export    store=FILE out=rows.csv|rows.parquet
merge     a.db b.db store=all.db
plot      STORE x=AXIS (one that was swept) y=steps_to_tol|loss|… out=FOLDER, and KEY=a,b or NAME.SETTING=a,b: only
          these rows (none: those without the key); medians are over seeds only
spectra   model=NAME blocks scale=raw|tenth sigma, and seed block_size rule sign pool threshold kappa map as above
verify    claim=2b,5 (an id, or a section) draws=N seed=N out=FOLDER (writes the ledger as a document); exit code 1 if a
          verdict is not the one that the ledger's status stands for
reproduce all figures, or names: zhang_four_cases rotation_axis … (a script's path too) fast=true (few draws, into
          figures/fast) redraw=true (from the tables that are there) workers=N out; exit code 1 if a script fails or a
          verdict is not the recorded one
report    figures=FOLDER out=FILE.html: verdicts, figures, claims and machine on one page, with an explorer of the cases
bench     sizes=3x3,4x30 (blocks x block size) optimizers=gd,adam lanes=1,64 threads=1,2 peers=numpy,torch,optax
          parts=steps,problems,start seconds=S (of a round) rounds=N out
measure   model=gpt2|gpt2-nano|bert-mini|vit-small|resnet18|vgg16|mlp blocks=a,b (* stands for anything)
          text=FILE tokens=2x128 vocab=FOLDER, or images=FILE labels=FILE batch=64 size=64x64; source=WORDS
          steps=60 probes=2 seed=0 curvature=hessian|gauss-newton mode=evaluation|training dtype=float32|float64
          train=STEPS out=FILE.npz overwrite=true

  --json   print the result, and nothing else, as JSON      --dry-run (sweep)      --version      --help
"""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code: 0, 1 for what failed on the way, 2 for usage."""
    _settle_streams()
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        _discard_output()
        return 141  # as a shell tells of a broken pipe: 1 would say that something failed
    except MemoryError:
        _complain("there is not enough memory for a problem of this size")
        return 1
    except OSError as error:
        name = error.filename
        if name is None and error.errno in FULL:  # files are named where they are written
            name = "standard output"
            _discard_output()
        _complain(f"{error.strerror or error}{f': {name}' if name is not None else ''}")
        return 1
    except RecursionError:
        _complain("the input is nested too deeply")
        return 1


def _main(arguments: Sequence[str]) -> int:
    words, code = grammar.read(arguments, VERBS), 0
    if "--help" in words.flags or (not arguments):
        print(HELP, end="")
    elif "--version" in words.flags:
        from importlib.metadata import version

        print(f"quadsim {version('quadsim')}")
    else:
        if "--dry-run" in words.flags and words.verb != "sweep":
            raise InputError(f"--dry-run is for sweep, not for {words.verb}")
        module, function = VERBS[words.verb]
        code = getattr(importlib.import_module(f"quadsim.verbs.{module}"), function)(words) or 0
    sys.stdout.flush()
    return code


def _settle_streams() -> None:
    """Let a terminal that knows no Greek show question marks, and a closed output swallow what is printed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python does not fail on it at its exit."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: standard output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(sentence: str) -> None:
    print(checks.PREFIX + checks.one_line(sentence), file=sys.stderr)


VERBS = {  # where each verb lives; a verb is imported when it is used
    "run": ("run", "run"),
    "list": ("listing", "show_list"),
    "cases": ("cases", "cases"),
    "spectra": ("spectra", "spectra"),
    "measure": ("measure", "measure"),
    "verify": ("verify", "verify"),
    "compare": ("compare", "compare"),
    "tune": ("compare", "tune"),
    "bench": ("bench", "bench"),
    "sweep": ("sweep", "sweep"),
    "status": ("store", "status"),
    "export": ("store", "export"),
    "merge": ("store", "merge"),
    "plot": ("plot", "plot"),
    "reproduce": ("reproduce", "reproduce"),
    "report": ("report", "report"),
}
