"""This machine: how long quadsim takes for a step, beside numpy, torch.optim and optax, measured in one run.

`loops` and `peers` hold the contestants, `measure` takes their times in turns, `starts` those of a process that begins,
and `workers` gives every number of threads a process of its own. Peers are imported here only, only where they are
used, and only if they are installed. Nothing here prints, draws or writes.
"""
