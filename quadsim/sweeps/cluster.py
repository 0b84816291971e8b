"""The executor on a Dask cluster: a running one (`tcp://host:port`, `tls://host:port`), or local processes (`local:4`).

Trust: a scheduler runs code for whoever can connect to it, workers run what the scheduler sends, and results are
unpickled here. With `tls://`, both sides must show a certificate that the CA of Dask's configuration has signed.

Dask may run a chunk more than once if a worker dies or does not answer; rows are stored once, by key. This is the only
module that imports Dask.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import os
import re
import socket
import ssl
import time
import uuid
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

from quadsim import _validation as checks
from quadsim._processes import WorkerDiedError, sigint_blocked
from quadsim._validation import InputError
from quadsim.engine.compiled import kernel_cache
from quadsim.engine.solver import cores
from quadsim.sweeps.executors import Chunk, Done, ExecutorLostError, run_in_worker
from quadsim.sweeps.grid import Grid

TIMEOUT_SECONDS = 15.0  # for a cluster to answer
POLL_SECONDS = 0.5  # between checks of the cluster
MAX_SECONDS_WITHOUT_WORKER = 60.0
MAX_DETAIL = 90  # characters of Dask's error in a message
LOCAL = re.compile(r"local(?::([0-9]{1,6}))?")
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/]+")


def check(cluster: object) -> None:
    """Raise unless this names a cluster and Dask is installed."""
    if not isinstance(cluster, str) or not (LOCAL.fullmatch(cluster) or ADDRESS.fullmatch(cluster)):
        raise InputError(f"cluster must be local:N or an address such as tcp://host:8786, got {checks.shown(cluster)}")
    if local := LOCAL.fullmatch(cluster):
        checks.whole("N of cluster=local:N", int(local[1] or 1), at_least=1, at_most=256)
    if importlib.util.find_spec("distributed") is None:
        raise InputError(f"cluster={cluster} needs Dask: pip install 'quadsim[dask]'")


def connect(grid: Grid, cluster: str, *, timeout: float = TIMEOUT_SECONDS, work: Any = run_in_worker) -> DaskExecutor:
    """The executor on the named cluster; InputError if it cannot be used."""
    check(cluster)
    import distributed

    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # deaths of workers are reported here
    if local := LOCAL.fullmatch(cluster):
        kernel_cache.check_folder()  # logs once here; workers do not log
        count = int(local[1]) if local[1] else cores()
        with ExitStack() as stack:  # closes the cluster if anything fails: no caller has a reference yet
            with sigint_blocked(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a port in use: Dask takes another
                local_cluster = distributed.LocalCluster(
                    n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
                stack.callback(local_cluster.close, timeout=5)
            executor = DaskExecutor(grid, _client(local_cluster, timeout), local_cluster, cluster, work)
            stack.pop_all()
            return executor
    _check_answer(cluster, timeout)
    try:
        client = _client(cluster, timeout)
    except Exception as error:
        raise InputError(f"cluster={cluster} cannot be used ({_short(error)})") from None
    return DaskExecutor(grid, client, None, cluster, work)


def _check_answer(cluster: str, timeout: float) -> None:
    """Raise unless a Dask scheduler answers at this address.

    Dask's client has a time limit only for connecting: another kind of server that accepts the connection and sends
    nothing, or speaks HTTP, would block it forever.
    """
    options, kind, problem = _connection_options(cluster), None, f"cluster={cluster} is not a Dask scheduler"

    def run() -> Any:
        return asyncio.run(_identity(cluster, timeout, options))

    try:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            kind = run()
        else:  # in a notebook, whose loop runs in this thread
            with ThreadPoolExecutor(1) as thread:
                kind = thread.submit(run).result()
    except MemoryError:  # text of another protocol, taken for the size of a message
        pass
    except Exception as error:
        problem = _reason(cluster, timeout, error)
    if kind != "Scheduler":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # closes sockets of failed handshakes, which Dask leaves open
        raise InputError(problem)


async def _identity(cluster: str, timeout: float, options: dict[str, Any]) -> Any:
    """The type of server at this address, as it reports it."""
    from distributed.comm import connect

    async with asyncio.timeout(timeout):
        comm = await connect(cluster, timeout=timeout, **options)
        try:
            await comm.write({"op": "identity", "reply": True})
            answer = await comm.read()
            return answer.get("type") if isinstance(answer, dict) else None
        finally:
            comm.abort()


def _connection_options(cluster: str) -> dict[str, Any]:
    """Dask's options for a client's connection; raises if they lack certificates that the address requires."""
    from distributed import Security

    paths: tuple[str | None, ...] = ()
    try:
        security = Security()
        paths = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
        options: dict[str, Any] = security.get_connection_args("client")
    except Exception as error:  # an absent or invalid file, an unknown version of TLS
        reason = f"the certificates of Dask's configuration cannot be used ({_short(error)})"
        for path in paths:
            if path and "\n" not in path and not os.access(path, os.R_OK):  # with line breaks it is the content
                reason = f"Dask's configuration names {path}, which cannot be read"
                break
        raise InputError(f"cluster={cluster}: {reason}") from None
    if cluster.startswith("tls://") and options["ssl_context"] is None:
        raise InputError(
            f"cluster={cluster} requires certificates: set distributed.comm.tls.ca-file, .client.cert and .client.key "
            "in Dask's configuration"
        )
    return options


def _reason(cluster: str, timeout: float, error: Exception) -> str:
    """Why the connection failed."""
    from distributed.comm import CommClosedError

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    scheme, _, host = cluster.partition("://")
    text = " ".join(str(cause) for cause in causes)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return f"the certificate of cluster={cluster} is not signed by the CA of distributed.comm.tls.ca-file"
    if "WRONG_VERSION_NUMBER" in text or "cannot convert to SSL" in text:  # it sent data during the handshake
        return f"cluster={cluster} does not speak TLS: is it cluster=tcp://{host}?"
    if not isinstance(error, OSError):  # no port, a protocol that is not installed; a timeout is an OSError
        return f"cluster={cluster} cannot be used ({_short(error)})"
    absent = any(isinstance(cause, TimeoutError | ConnectionRefusedError | socket.gaierror) for cause in causes)
    if not absent and "Timed out" not in str(error) and isinstance(error, CommClosedError | ConnectionError):
        if scheme == "tls":
            return f"cluster={cluster} refused this client: is distributed.comm.tls.client.cert signed by its CA?"
        return f"cluster={cluster} closed the connection: does its scheduler require TLS (cluster=tls://{host})?"
    detail = next((cause.strerror for cause in reversed(causes) if isinstance(cause, OSError) and cause.strerror), None)
    return (
        f"cluster={cluster} does not answer within {timeout:g} s{f' ({detail})' if detail else ''}: "
        "is a Dask scheduler running at this address?"
    )


def _client(address: Any, timeout: float) -> Any:
    """Dask's client; closed at once if its start fails.

    Otherwise Dask closes it in garbage collection, which deadlocks if another client is starting.
    """
    from distributed import Client

    client: Any = Client.__new__(Client)
    try:
        client.__init__(address, timeout=timeout)
    except BaseException:
        with suppress(Exception):  # it may be too incomplete to close
            client.close(timeout=5)
        raise
    return client


class DaskExecutor:
    """Runs chunks on a Dask cluster; a task costs milliseconds, so chunks are longer."""

    chunk_seconds = 0.5
    max_deaths = 1  # Dask has already retried it on several workers

    def __init__(self, grid: Grid, client: Any, local_cluster: Any, name: str, work: Any) -> None:
        self._grid, self._client, self._local, self._name, self._work = grid, client, local_cluster, name, work
        self._last_seen = time.monotonic()  # when a worker was last seen
        self.capacity = 2
        self._check_workers()

    def submit(self, chunk: Chunk) -> Any:
        self._check_workers()
        return self._client.submit(
            self._work, chunk.groups, self._grid.keys, self._grid.mark, pure=False, key=f"quadsim-{uuid.uuid4()}"
        )

    def finished(self, futures: Iterable[Any]) -> list[Any]:
        from distributed import wait

        listed = list(futures)
        while True:
            if ended := [future for future in listed if future.status != "pending"]:
                return ended
            self._check_workers()
            try:
                wait(listed, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
            except TimeoutError:
                continue
            except Exception as error:
                raise self._lost() from error

    def result(self, future: Any) -> Done:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            return future.result(timeout=TIMEOUT_SECONDS)
        except KilledWorker as error:
            raise WorkerDiedError("every worker that ran it ended abruptly") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # CancelledError is no Exception
            closed = isinstance(error, CommClosedError)  # noticed before the client's status changes
            if closed or future.status in ("cancelled", "lost") or self._client.status != "running":
                raise self._lost() from error
            detail = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ExecutorLostError(f"a worker of cluster={self._name} cannot run it ({detail})") from error

    def _check_workers(self) -> None:
        """Raise if the scheduler is gone or has long had no workers; set the capacity from the number of threads."""
        if self._client.status != "running":
            raise self._lost()
        try:
            threads = sum(self._client.nthreads().values())
        except Exception as error:
            raise self._lost() from error
        if self._local is not None and threads < len(self._local.worker_spec):
            self._local.scale(len(self._local.worker_spec))  # Dask does not restart every worker that dies
        if threads:
            self._last_seen, self.capacity = time.monotonic(), 2 * threads + 1
        elif time.monotonic() - self._last_seen > MAX_SECONDS_WITHOUT_WORKER:
            raise ExecutorLostError(f"cluster={self._name} has had no worker for {MAX_SECONDS_WITHOUT_WORKER:g} s")

    def _lost(self) -> ExecutorLostError:
        return ExecutorLostError(f"the scheduler of cluster={self._name} is gone")

    def close(self) -> None:
        for connected in (self._client, self._local):
            if connected is not None:
                with suppress(Exception):  # already gone
                    connected.close(timeout=5)


def _short(error: BaseException) -> str:
    """The first line of an error, cut to MAX_DETAIL characters."""
    first = str(error).partition("\n")[0]
    return (first if len(first) <= MAX_DETAIL else first[: MAX_DETAIL - 1] + "…") if first else type(error).__name__
