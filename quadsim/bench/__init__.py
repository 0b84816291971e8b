"""Benchmarks on this machine: the time per step of quadsim, numpy, torch.optim and optax, measured in one run.

`loops` and `peers` define the contestants, `measure` times them in turns, `starts` times the start of a process, and
`workers` runs each number of threads in a separate process. Other libraries are imported only where they are used, and
only if they are installed. Nothing here prints, draws or writes.
"""
