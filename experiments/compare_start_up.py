"""How long does a user wait in two checkouts of quadsim? Whole processes, in turns, minima and their ratios.

    python experiments/compare_start_up.py CHECKOUT_OLD [CHECKOUT_NEW] [rounds=7]

CHECKOUT_NEW is this clone by default. The processes import the package from their checkout; this Python has the
dependencies of both. A new rule is one that no cache has seen: its text differs from round to round.

- import: `import quadsim`
- help: the first page of help
- warm case=3: the default run of Case 3, figure and data included, kernels cached
- new rule: 1,000 steps of a user's rule, kernels of other optimizers cached
- new rule, empty cache: the same with no kernel cached
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

RULE = """
import quadsim as qs

@qs.rule(state="m")
def mine(g, m, lr=0.001, beta=0.9):
    m = {beta!r} * m + (1 - beta) * g
    return lr * m, m
"""
OWN = """
import sys
sys.path.insert(0, ".")
import quadsim as qs, rules
qs.solve(qs.case(3), rules.mine(), max_steps=1000)
"""
OTHER = "import quadsim as qs; qs.solve(qs.case(3), qs.Adam(), max_steps=1000)"


class Checkout:
    """A checkout with a kernel cache of its own."""

    def __init__(self, path, folder):
        self.path, self.folder = Path(path).resolve(), folder
        if not (self.path / "quadsim/__init__.py").is_file():
            sys.exit(f"{path} is not a checkout of quadsim")
        self.cache = Path(folder) / "cache"
        self.run(["-c", OTHER])  # fills the cache
        self.run(["-m", "quadsim", "case=3", "out=figures"])

    def run(self, arguments, cache=None):
        """The seconds of `python arguments…`, in processor time and elapsed."""
        environment = {"PYTHONPATH": str(self.path), "QUADSIM_CACHE_DIR": str(cache or self.cache)}
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=os.environ | environment, capture_output=True, text=True
        )
        elapsed, after = time.perf_counter() - began, os.times()
        if done.returncode:
            sys.exit(f"{self.path}: python {' '.join(arguments)[:60]} failed: {done.stderr.strip()[-300:]}")
        used = after.children_user + after.children_system - before.children_user - before.children_system
        return used, elapsed

    def new_rule(self, beta, cache=None):
        Path(self.folder, "rules.py").write_text(RULE.format(beta=beta), encoding="utf-8")
        return self.run(["-c", OWN], cache)

    def empty_cache(self, beta):
        with tempfile.TemporaryDirectory() as folder:
            return self.new_rule(beta, folder)


MEASURED = {
    "import": lambda checkout, beta: checkout.run(["-c", "import quadsim"]),
    "help": lambda checkout, beta: checkout.run(["-m", "quadsim", "--help"]),
    "warm case=3": lambda checkout, beta: checkout.run(["-m", "quadsim", "case=3", "out=figures"]),
    "new rule": Checkout.new_rule,
    "new rule, empty cache": Checkout.empty_cache,
}


def main():
    rounds = int(next((text.removeprefix("rounds=") for text in sys.argv[1:] if text.startswith("rounds=")), 7))
    paths = [text for text in sys.argv[1:] if not text.startswith("rounds=")]
    if not 1 <= len(paths) <= 2:
        sys.exit(__doc__)
    paths += [Path(__file__).parents[1]] * (2 - len(paths))
    rows = []
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        checkouts = [Checkout(path, folder) for path, folder in zip(paths, (old, new), strict=True)]
        for name, measure in MEASURED.items():
            taken = [[measure(checkout, 0.9 + 1e-6 * k) for checkout in checkouts] for k in range(rounds)]
            for what, number in (("processor", 0), ("elapsed", 1)):
                before, now = (min(turn[k][number] for turn in taken) for k in (0, 1))
                ratio = statistics.median(turn[1][number] / turn[0][number] for turn in taken)
                numbers = {"old": before, "new": now, "ratio of minima": now / before, "median ratio": ratio}
                rows.append({"what": name, "seconds": what, **numbers})
    print(pd.DataFrame(rows).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
