"""The worker process: `workers` starts it, with a plan on standard input."""

from quadsim.bench.workers import serve

serve()
