"""The expected time of a sweep beside the time that it takes, for sweeps of many kinds.

    python experiments/sweep_estimates.py [NAME …]

Each sweep is a new process. `cold` ones have an empty cache of kernels. The expected time is that of `--dry-run`; the
time taken is that of the command, without the start of Python. Another load on the machine changes both, at other
moments.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

SPECTRUM = "spectrum=log-uniform"
LOG_UNIFORM = f"{SPECTRUM} kappa=1e4"
SWEEPS = {  # by name: the keys
    "closed forms": "case=3,4 kappa=10:1e6:log25 seed=0..29",
    "closed forms that oscillate": "case=3 kappa=1e2:1e8:log13 optimizers=heavy-ball,nesterov seed=0..9",
    "lr and β2 of adam": "case=3 optimizers=adam adam.lr=1e-4:1:log30 adam.beta2=0.9,0.99,0.999 seed=0..19",
    "measured spectra, compiled": "case=1,2 optimizers=adam,signum adam.lr=1e-3,1e-2,1e-1 max_steps=20000 seed=0..9",
    "measured spectra, to tol": "case=1,2 optimizers=gd engine=compiled tol=1e-8 kappa=10:1e4:log7 seed=0..9",
    "minibatches": "case=3 batch=1,3 optimizers=sgd,adam max_steps=5000 seed=0..49",
    "gradient noise": "case=1 noise=gaussian noise.scale=0.1 optimizers=sgd,adam max_steps=5000 seed=0..19",
    "few steps": "case=3,4 optimizers=adam,signgd max_steps=50 tol=0 seed=0..299",
    "large blocks": f"{LOG_UNIFORM} blocks=2 block_size=200 optimizers=gd,frozen-adam seed=0..19",
    "larger blocks": f"{LOG_UNIFORM} blocks=1 block_size=600 optimizers=gd seed=0..9",
    "large blocks, compiled": f"{LOG_UNIFORM} blocks=2 block_size=100 optimizers=adam max_steps=5000 seed=0..19",
    "middle blocks": f"{LOG_UNIFORM} blocks=4 block_size=30 optimizers=gd,adam heterogeneity=0,0.5,1 seed=0..19",
    "sizes of blocks": f"{SPECTRUM} blocks=2 block_size=3,10,30,100 optimizers=gd,adam max_steps=10000 seed=0..9",
    "tol reached early and late": "case=4 kappa=3:1e5:log20 optimizers=gd engine=compiled gd.lr=none seed=0..19",
    "schedules": "case=4 optimizers=adam schedule=cosine,linear adam.lr=1e-3:1e-1:log9 max_steps=20000 seed=0..19",
    "one thread": "case=3 optimizers=adam adam.lr=1e-3:1:log10 seed=0..29 threads=1",
    "two processes": "case=3 optimizers=gd,adam kappa=10:1e5:log9 max_steps=20000 seed=0..29 workers=2",
    "cluster": "case=3 optimizers=gd,adam kappa=10:1e4:log5 max_steps=20000 seed=0..29 cluster=local:2",
    "cold, few cells": "case=3 optimizers=adam,lion,signum seed=0..2",
    "cold, few steps": "case=3 optimizers=adam,nadam max_steps=100 seed=0..29",
    "cold, many cells": "case=3 optimizers=adam adam.lr=1e-4:1:log30 adam.beta2=0.9,0.99 seed=0..19",
}


def main():
    names = sys.argv[1:] or list(SWEEPS)
    print("| sweep | expected | taken | ratio |\n|---|---|---|---|")
    ratios = {}
    for name in names:
        expected, taken = measured(name)
        ratios[name] = expected / taken
        print(f"| {name} | {expected:.2f} s | {taken:.2f} s | {ratios[name]:.2f} |", flush=True)
    inside = sum(1 / 3 <= ratio <= 3 for ratio in ratios.values())
    print(f"\n{inside} of {len(ratios)} within a factor of 3")


def measured(name):
    """The seconds expected and taken."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | ({"QUADSIM_CACHE_DIR": str(Path(folder) / "cache")} if name.startswith("cold") else {})

        def run(*more):
            argv = [sys.executable, "-m", "quadsim", "sweep", *shlex.split(SWEEPS[name]), "--json", *more]
            done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        if not name.startswith("cold"):  # its kernels are in the cache, as after an earlier sweep
            run("store=warm.db")
        return run("store=s.db", "--dry-run")["expected_seconds"], run("store=s.db")["seconds"]


if __name__ == "__main__":
    main()
