"""Chunks on a Dask cluster: one that is there (`tcp://host:port`), or one of processes of this machine (`local:4`).

Dask may run a chunk more than once, where a worker died or was thought to be dead; rows are stored once all the same,
by their key. The only module that imports Dask.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import time
import uuid
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from quadsim import checks
from quadsim.checks import InputError
from quadsim.solver import cores
from quadsim.sweeps.grid import Grid
from quadsim.sweeps.places import Chunk, Died, Done, Lost, deaf, run_elsewhere

TIMEOUT = 15.0  # seconds for a cluster to answer
LOOK = 0.5  # seconds between two looks at whether the cluster is still there
PATIENCE = 60.0  # seconds for a cluster without workers to get one
LOCAL = re.compile(r"local(?::([0-9]{1,6}))?")
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/]+")


def check(cluster: object) -> None:
    """Raise unless this names a cluster, and Dask is there to speak to it."""
    if not isinstance(cluster, str) or not (LOCAL.fullmatch(cluster) or ADDRESS.fullmatch(cluster)):
        raise InputError(f"cluster must be local:N or an address such as tcp://host:8786, got {checks.shown(cluster)}")
    if local := LOCAL.fullmatch(cluster):
        checks.whole("N of cluster=local:N", int(local[1] or 1), at_least=1, at_most=256)
    if importlib.util.find_spec("distributed") is None:
        raise InputError(f"cluster={cluster} needs Dask: pip install 'quadsim[dask]'")


def connect(grid: Grid, cluster: str, *, timeout: float = TIMEOUT, work: Any = run_elsewhere) -> Cluster:
    """The place that the text names; a clear sentence where it cannot be had."""
    check(cluster)
    import distributed

    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # deaths of workers are expected, and told by us
    if local := LOCAL.fullmatch(cluster):
        count = int(local[1]) if local[1] else cores()
        made = None
        try:
            with deaf(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a port that was taken: another one is
                made = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    worker_dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            return Cluster(grid, _client(made, timeout), made, cluster, work)
        except BaseException:  # Ctrl-C too: nobody else will close it
            if made is not None:
                made.close(timeout=5)
            raise
    try:
        client = _client(cluster, timeout)
    except OSError as error:  # a time-out is one
        raise InputError(
            f"cluster={cluster} does not answer within {timeout:g} s ({_first_words(error)}): "
            "is the scheduler running, and is this its address?"
        ) from None
    except Exception as error:  # no port, no certificates, a protocol that is not installed
        raise InputError(f"cluster={cluster} cannot be used ({_first_words(error)})") from None
    return Cluster(grid, client, None, cluster, work)


def _client(address: Any, timeout: float) -> Any:
    """Dask's client; one that cannot be is closed at once.

    Dask would close it when the garbage is collected, and if that happens while another client begins, both wait for
    one lock, for ever.
    """
    from distributed import Client

    client: Any = Client.__new__(Client)
    try:
        client.__init__(address, timeout=timeout)
    except BaseException:
        with suppress(Exception):  # it may be too unfinished to be closed
            client.close(timeout=5)
        raise
    return client


class Cluster:
    """A Dask client as a place for chunks: a task costs milliseconds, so that chunks are longer."""

    chunk_seconds = 0.5
    deaths = 1  # Dask has tried it several times by then

    def __init__(self, grid: Grid, client: Any, made: Any, name: str, work: Any) -> None:
        self._grid, self._client, self._made, self._name, self._work = grid, client, made, name, work
        self._without = time.monotonic()  # since when no worker was seen
        self.room = 2
        self._look()

    def submit(self, chunk: Chunk) -> Any:
        self._look()
        return self._client.submit(
            self._work, chunk.groups, self._grid.keys, self._grid.mark, pure=False, key=f"quadsim-{uuid.uuid4()}"
        )

    def finished(self, futures: Iterable[Any]) -> list[Any]:
        from distributed import wait

        listed = list(futures)
        while True:
            ended = [future for future in listed if future.status not in ("pending",)]
            if ended:
                return ended
            self._look()
            try:
                wait(listed, timeout=LOOK, return_when="FIRST_COMPLETED")
            except TimeoutError:
                continue
            except Exception as error:
                raise self._lost() from error

    def result(self, future: Any) -> Done:
        from distributed import KilledWorker

        try:
            return future.result(timeout=TIMEOUT)
        except KilledWorker as error:
            raise Died("every worker that ran it ended abruptly") from error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if future.status in ("cancelled", "lost") or self._client.status != "running":
                raise self._lost() from error
            words = " ".join(str(error).split())
            raise Lost(f"a worker of cluster={self._name} cannot run it ({type(error).__name__}: {words})") from error

    def _look(self) -> None:
        """Raise if the scheduler is gone, or has had no workers for long; room for as many chunks as they can hold."""
        if self._client.status != "running":
            raise self._lost()
        try:
            threads = sum(self._client.nthreads().values())
        except Exception as error:
            raise self._lost() from error
        if self._made is not None and threads < len(self._made.worker_spec):
            self._made.scale(len(self._made.worker_spec))  # Dask gives a worker up that is away at a bad moment
        if threads:
            self._without, self.room = time.monotonic(), 2 * threads + 1
        elif time.monotonic() - self._without > PATIENCE:
            raise Lost(f"cluster={self._name} has had no worker for {PATIENCE:g} s")

    def _lost(self) -> Lost:
        return Lost(f"the scheduler of cluster={self._name} is gone")

    def close(self) -> None:
        for one in (self._client, self._made):
            if one is not None:
                try:
                    one.close(timeout=5)
                except Exception:  # what is gone need not be closed
                    continue


def _first_words(error: BaseException) -> str:
    return str(error).splitlines()[0].split(" after ")[0] if str(error) else type(error).__name__
