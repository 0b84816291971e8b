"""Steps to a relative gradient norm of 1e-6 in Cases 3 and 4: median and quartiles over 200 seeds.

python experiments/case_medians.py
"""

import numpy as np

import quadsim as qs

SEEDS = range(200)
OPTIMIZERS = (qs.GD(), qs.FrozenAdam(), qs.BlockGD())


def main():
    print("| steps, median (quartiles) of 200 seeds | GD | Adam (β2 = 1), best lr | block GD |\n|---|---|---|---|")
    for number in (3, 4):
        runs = qs.solve(
            lambda seed: qs.case(number, seed=seed),  # noqa: B023
            OPTIMIZERS,
            seed=SEEDS,
            max_steps=10_000_000,
            engine="compiled",
        )
        steps = np.reshape([run.steps_to_tol for run in runs], (len(SEEDS), -1))
        quartiles = np.quantile(steps, [0.25, 0.5, 0.75], axis=0).T
        cells = [f"{median:,.0f} ({low:,.0f}–{high:,.0f})" for low, median, high in quartiles]
        print(f"| Case {number} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
