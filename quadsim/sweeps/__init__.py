"""Sweeps: a grid of cells, run in chunks by an executor, each row stored once.

`axes` parses the axes, `grid` enumerates the cells, `fingerprint` identifies the code that computes them, `execute`
runs the cells of one problem, `executors` and `cluster` run chunks, `runner` commits their rows to a store.
"""
