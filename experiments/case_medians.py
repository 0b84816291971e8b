"""Steps to a relative gradient norm of 1e-6 in Cases 3 and 4: median and quartiles over 200 seeds.

python experiments/case_medians.py
"""

import numpy as np

import quadsim as qs

SEEDS = range(200)


def main():
    print("| steps, median (quartiles) of 200 seeds | GD | Adam (β2 = 1), best lr | block GD |\n|---|---|---|---|")
    for number in (3, 4):
        cells = []
        for optimizer in (qs.GD(), qs.FrozenAdam(), qs.BlockGD()):
            runs = [
                qs.solve(qs.case(number, seed=seed), optimizer, seed=seed, max_steps=10_000_000, engine="compiled")
                for seed in SEEDS
            ]
            low, median, high = np.quantile([run.steps_to_tol for run in runs], [0.25, 0.5, 0.75])
            cells.append(f"{median:,.0f} ({low:,.0f}–{high:,.0f})")
        print(f"| Case {number} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
