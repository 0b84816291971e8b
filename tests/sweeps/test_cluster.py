"""Sweeps on a Dask cluster: the same rows, whatever happens to workers and scheduler. All of it on this machine."""

import asyncio
import gc
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_processes import (
    FULL,
    PATIENCE,
    POISON,
    SLOW,
    alone,
    arguments_of,
    begun,
    check_poison,
    complaints,
    differences,
    end_at_poison,
    kill_group,
    kill_workers,
    many,
    rows,
    run,
    until,
    workers_of,
)

import quadsim as qs
from quadsim._validation import InputError
from quadsim.cli import main as cli
from quadsim.sweeps import cluster, runner
from quadsim.sweeps.executors import ExecutorLostError
from quadsim.sweeps.grid import Grid
from quadsim.sweeps.store.database import Store

CommClosedError = pytest.importorskip("distributed").comm.CommClosedError
pytestmark = pytest.mark.slow

SMALL = {"case": "3,4", "kappa": "10,1e3", "optimizers": "gd,frozen-adam,adam", "seed": "0..4"}  # 60 cells


@contextmanager
def dask(folder, *line, **env):
    """One of Dask's commands as a process; killed at the end with all its child processes."""
    with open(folder / "dask.log", "a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *line],
            stdout=log, stderr=log, start_new_session=True, cwd=folder, env=os.environ | env,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_group(process)


@contextmanager
def scheduler(folder, scheme="tcp", **env):
    """A scheduler without workers: its process and its address."""
    place = folder / "scheduler.json"
    place.unlink(missing_ok=True)
    line = ("--host", f"{scheme}://127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(place))
    with dask(folder, "distributed.cli.dask_scheduler", *line, **env) as process:
        until(lambda: place.exists() and place.read_text().endswith("}"), process)
        yield process, json.loads(place.read_text())["address"]


def worker(folder, address, **env):
    line = ("--host", f"{address.partition(':')[0]}://127.0.0.1", "--nthreads", "1", "--no-dashboard")
    return dask(folder, "distributed.cli.dask_worker", address, *line, "--local-directory", str(folder), **env)


def test_a_cluster_of_processes_gives_the_same_table(tmp_path):
    here, on_cluster = tmp_path / "here.db", tmp_path / "there.db"
    run(here, SMALL)
    assert run(on_cluster, SMALL, "cluster=local:2")["computed"] == 60
    assert differences(on_cluster, here) == []
    assert run(on_cluster, SMALL, "cluster=tcp://127.0.0.1:1")["computed"] == 0  # nobody is asked, as nothing is left


def test_a_cluster_from_python(tmp_path):
    frame = qs.sweep(**SMALL, cluster="local:1", store=tmp_path / "there.db")
    here = qs.sweep(**SMALL)
    assert frame.drop(columns="seconds").equals(here.drop(columns="seconds"))


def kill_in_rounds(folder, keys, peace, kills, seed):
    """Kill workers of a local cluster at random instants, in as many sweeps as it takes."""
    done = rounds = 0
    while done < kills:
        store, rounds = folder / f"kills-{rounds}.db", rounds + 1
        with begun(store, keys, "cluster=local:2") as process:
            until(lambda store=store: many(store) > 0, process)
            now = kill_workers(process, kills - done, seed + rounds, every=(0.3, 3))
            assert now > 0
            assert process.wait(3 * PATIENCE) == 0, complaints(store)
            assert alone(process)
        assert complaints(store) == []
        assert differences(store, peace) == []
        done += now
    return rounds


def test_two_killed_workers_cost_nothing_but_time(tmp_path, slow_reference):
    assert kill_in_rounds(tmp_path, SLOW, slow_reference, 2, 30) >= 1


@pytest.mark.usefixtures("full")
def test_twenty_five_killed_workers_cost_nothing_but_time(tmp_path, record_property):
    keys, peace = {**FULL, "max_steps": "1e6"}, tmp_path / "peace.db"
    run(peace, keys)
    rounds = kill_in_rounds(tmp_path, keys, peace, 25, 31)
    record_property("rounds", rounds)
    assert rounds >= 1


def test_a_poison_cell_costs_its_own_row_and_nothing_else(tmp_path):
    """Dask gives up a chunk at the second death of a worker, instead of the fourth as by default."""
    from dask import config

    grid = Grid.read({"case": "3", "kappa": "10", "optimizers": "gd", "seed": f"0..{2 * POISON}"})
    with Store.writing(tmp_path / "peace.db") as store:
        runner.run(grid, store)
    with Store.writing(tmp_path / "poison.db") as store:
        with config.set({"distributed.scheduler.allowed-failures": 1}):
            dask = cluster.connect(grid, "local:2", work=end_at_poison)
        assert runner.run(grid, store, executor=dask) == grid.cells
    check_poison(tmp_path / "poison.db", tmp_path / "peace.db", grid, "every worker that ran it ended abruptly")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CommClosedError("Stream is closed"), "the scheduler of cluster=tcp://a:1 is gone"),
        (ValueError("no such file"), r"a worker of cluster=tcp://a:1 cannot run it \(ValueError: no such file\)"),
    ],
)
def test_a_closed_connection_is_a_lost_scheduler(error, message):
    """The result may fail before the client's status says that the scheduler is gone."""

    def fails(timeout):
        raise error

    client = SimpleNamespace(status="running", nthreads=lambda: {"worker": 1})
    future = SimpleNamespace(status="finished", result=fails)
    executor = cluster.DaskExecutor(None, client, None, "tcp://a:1", None)
    with pytest.raises(ExecutorLostError, match=f"^{message}$"):
        executor.result(future)


def test_a_lost_scheduler_is_reported_and_the_same_command_continues(tmp_path, slow_reference):
    store = tmp_path / "lost.db"
    with scheduler(tmp_path) as (process, address), worker(tmp_path, address), worker(tmp_path, address):
        with begun(store, SLOW, f"cluster={address}") as sweep:
            until(lambda: many(store) > 0, sweep)
            kill_group(process)
            began = time.monotonic()
            assert sweep.wait(PATIENCE) == 1
            assert time.monotonic() - began < 60
        kept = rows(store)
        assert complaints(store) == [
            f"quadsim: the scheduler of cluster={address} is gone; {len(kept):,} rows are in {store}, and the same "
            "command continues"
        ]
    assert 0 < len(kept) < 400
    assert run(store, SLOW)["computed"] == 400 - len(kept)
    assert differences(store, slow_reference, kept) == []


def test_workers_may_join_and_leave_during_a_sweep(tmp_path, slow_reference):
    store = tmp_path / "late.db"
    with scheduler(tmp_path) as (_, address), begun(store, SLOW, f"cluster={address}") as sweep:
        until(lambda: Path(f"{store}.out").read_text(), sweep)
        with worker(tmp_path, address):
            until(lambda: many(store) > 0, sweep)
        seen = many(store)
        with worker(tmp_path, address):
            assert sweep.wait(PATIENCE) == 0
    assert seen > 0
    assert complaints(store) == []
    assert differences(store, slow_reference) == []


def refused(capsys, tmp_path, name):
    """The output of the command with this cluster, and its exit code."""
    capsys.readouterr()
    code = cli.main(["sweep", *arguments_of(SMALL), f"store={tmp_path / 'refused.db'}", f"cluster={name}"])
    err = capsys.readouterr().err
    assert err.startswith("quadsim: ")
    assert err.count("\n") == 1
    return code, err


def test_a_cluster_that_does_not_answer_is_reported_with_its_address(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(cluster.connect.__kwdefaults__, "timeout", 2.0)
    began = time.monotonic()
    code, err = refused(capsys, tmp_path, "tcp://127.0.0.1:1")
    assert code == 2
    assert "cluster=tcp://127.0.0.1:1 does not answer" in err
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nonsense", "cluster must be local:N or an address such as tcp://host:8786, got 'nonsense'"),
        ("local:0", "cluster=local:N must be a whole number from 1 to 256, got 0"),
        ("local:many", "cluster must be local:N or an address"),
        ("tcp://", "cluster must be local:N or an address"),
        ("tcp://127.0.0.1", "cluster=tcp://127.0.0.1"),
        ("tls://127.0.0.1:1", "cluster=tls://127.0.0.1:1"),
        ("ucx://127.0.0.1:1", "cluster=ucx://127.0.0.1:1"),
    ],
)
def test_an_invalid_cluster_is_refused(capsys, tmp_path, name, sentence):
    code, err = refused(capsys, tmp_path, name)
    assert code == 2
    assert sentence in err
    import distributed

    begun_clients = [one for one in gc.get_objects() if type(one) is distributed.Client]
    assert {getattr(one, "status", "never begun") for one in begun_clients} <= {"closed", "never begun"}


# ---- TLS


def openssl(folder, *options):
    subprocess.run(["openssl", *options], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA (ca), a certificate that it has signed (node), and one that signed itself (other)."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl makes the certificates")
    folder = tmp_path_factory.mktemp("certificates")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for name in ("ca", "other"):
        openssl(folder, "req", "-x509", *new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    openssl(folder, "req", *new[:-2], "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", "node.pem")
    openssl(folder, "x509", "-req", "-in", "node.csr", *signed)
    return folder


def tls_settings(folder, ca="ca.pem", cert="node.pem", key="node.key"):
    """Dask's configuration with these certificates for every role."""
    found = {"distributed.comm.tls.ca-file": str(folder / ca)}
    for role in ("client", "scheduler", "worker"):
        found |= {f"distributed.comm.tls.{role}.cert": str(folder / cert)}
        found |= {f"distributed.comm.tls.{role}.key": str(folder / key)}
    return found


def as_environment(settings):
    """The same as environment variables."""
    return {"DASK_" + name.upper().replace(".", "__").replace("-", "_"): text for name, text in settings.items()}


def test_a_cluster_behind_tls_gives_the_same_table(tmp_path, certificates):
    """From the command line with the configuration in environment variables, and from Python with Dask's own."""
    import dask.config

    settings, here = tls_settings(certificates), tmp_path / "here.db"
    env = as_environment(settings)
    run(here, SMALL)
    with scheduler(tmp_path, "tls", **env) as (_, address), worker(tmp_path, address, **env):
        assert address.startswith("tls://127.0.0.1:")
        line = [sys.executable, "-m", "quadsim", "sweep", *arguments_of(SMALL), f"cluster={address}"]
        done = subprocess.run(
            [*line, f"store={tmp_path / 'there.db'}", "--json"],
            capture_output=True, text=True, timeout=PATIENCE, env=os.environ | env,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["computed"] == 60
        with dask.config.set(settings):
            frame = qs.sweep(**SMALL, cluster=address)
    assert differences(tmp_path / "there.db", here) == []
    assert len(frame) == 60


def test_clients_refused_by_a_tls_scheduler_get_a_reason(capsys, tmp_path, certificates):
    import dask.config

    (certificates / "text.pem").write_text("not a certificate\n")
    good = tls_settings(certificates)
    with scheduler(tmp_path, "tls", **as_environment(good)) as (_, address):
        host = address.partition("://")[2]
        for settings, name, sentence in (
            ({}, address, f"cluster={address} requires certificates: set distributed.comm.tls.ca-file, .client.cert"),
            ({"distributed.comm.tls.ca-file": str(certificates / "ca.pem")}, address, "requires certificates"),
            ({}, f"tcp://{host}", f"closed the connection: does its scheduler require TLS (cluster=tls://{host})?"),
            (good, f"tcp://{host}", f"closed the connection: does its scheduler require TLS (cluster=tls://{host})?"),
            (tls_settings(certificates, ca="other.pem"), address, "is not signed by the CA of distributed.comm.tls.ca"),
            (
                tls_settings(certificates, cert="other.pem", key="other.key"),
                address,
                "refused this client: is distributed",
            ),
            (
                tls_settings(certificates, key="other.key"),
                address,
                "the certificates of Dask's configuration cannot be",
            ),
            (tls_settings(certificates, ca="text.pem"), address, "the certificates of Dask's configuration cannot be"),
            (tls_settings(certificates, ca="absent.pem"), address, "absent.pem, which cannot be read"),
        ):
            began = time.monotonic()
            with dask.config.set(settings):
                code, err = refused(capsys, tmp_path, name)
            assert code == 2
            assert sentence in err
            assert len(err) <= 200 + len(str(certificates))
            assert time.monotonic() - began < cluster.TIMEOUT_SECONDS
        with dask.config.set(good):  # the control: with the right ones it answers
            cluster._check_answer(address, cluster.TIMEOUT_SECONDS)


def test_a_scheduler_without_tls_is_distinguished_from_one_with(capsys, tmp_path, certificates):
    import dask.config

    with scheduler(tmp_path) as (_, address), dask.config.set(tls_settings(certificates)):
        code, err = refused(capsys, tmp_path, address.replace("tcp", "tls"))
    assert code == 2
    assert f"does not speak TLS: is it cluster={address}?" in err


def test_certificates_may_be_required_everywhere(tmp_path, certificates):
    """With `require-encryption`, the scheduler and workers of `local:N` speak TLS too."""
    import dask.config

    grid = Grid.read(SMALL)
    with dask.config.set({**tls_settings(certificates), "distributed.comm.require-encryption": True}):
        executor = cluster.connect(grid, "local:1")
        try:
            assert executor._client.scheduler.address.startswith("tls://127.0.0.1:")
            plain = executor._client.scheduler.address.replace("tls", "tcp")
            with (
                dask.config.set({"distributed.comm.require-encryption": False}),
                pytest.raises(InputError, match="closed the connection: does its scheduler require TLS"),
            ):
                cluster._check_answer(plain, 15.0)
        finally:
            executor.close()


def answer_http(connection):
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (answer_http, "is not a Dask scheduler"),
        (lambda connection: None, "does not answer within 2 s: is a Dask scheduler running at this address?"),
    ],
    ids=["HTTP", "silence"],
)
def test_another_kind_of_server_is_refused_without_waiting(capsys, tmp_path, monkeypatch, answer, sentence):
    monkeypatch.setitem(cluster.connect.__kwdefaults__, "timeout", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve():
            with suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    answer(kept[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        began = time.monotonic()
        code, err = refused(capsys, tmp_path, f"tcp://127.0.0.1:{server.getsockname()[1]}")
        assert time.monotonic() - began < 30
        for connection in kept:
            connection.close()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert code == 2
    assert sentence in err


def test_within_a_running_loop(tmp_path):
    """As in a notebook."""

    async def ask():
        with pytest.raises(InputError, match=r"does not answer within 1 s"):
            cluster._check_answer("tcp://127.0.0.1:1", 1.0)

    asyncio.run(ask())


def test_a_cluster_without_workers_is_reported_after_a_wait(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "MAX_SECONDS_WITHOUT_WORKER", 1.0)
    with scheduler(tmp_path) as (_, address):
        code, err = refused(capsys, tmp_path, address)
    assert code == 1, err
    assert f"cluster={address} has had no worker for 1 s; 0 rows are in" in err
    assert "the same command continues" in err


def test_without_dask_the_message_says_how_to_install_it(tmp_path):
    line = "import sys; sys.modules['distributed'] = None; from quadsim.cli import main as cli\n"
    line += "sys.exit(cli.main(sys.argv[1:]))"
    process = subprocess.run(
        [sys.executable, "-c", line, "sweep", *arguments_of(SMALL), "store=none.db", "cluster=local:2"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
    )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr == "quadsim: cluster=local:2 needs Dask: pip install 'quadsim[dask]'\n"


def test_workers_end_when_their_parent_is_killed(tmp_path):
    store = tmp_path / "orphans.db"
    with begun(store, SLOW, "cluster=local:2") as process:
        until(lambda: workers_of(process.pid) and many(store) > 0, process)
        os.kill(process.pid, signal.SIGKILL)  # it alone
        process.wait(PATIENCE)
        assert alone(process)
    with Store.writing(store) as opened:  # it is not locked
        assert len(opened) == many(store) > 0


def test_ctrl_c_says_what_is_kept(tmp_path):
    store = tmp_path / "stopped.db"
    with begun(store, SLOW, "cluster=local:2") as process:
        until(lambda: many(store) > 0, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        assert process.wait(PATIENCE) == 130
        assert alone(process)
    sentence = f"quadsim: interrupted; {many(store):,} rows are in {store}, and the same command continues"
    assert complaints(store) == [sentence]


def test_chunks_take_half_a_second_once_the_pace_is_known(tmp_path):
    grid = Grid.read({"case": "3,4", "kappa": "10:1e6:log25", "optimizers": "gd,frozen-adam,adam", "seed": "0..29"})
    dask = cluster.connect(grid, "local:2")
    seconds, result = [], dask.result

    def noted(future):
        done = result(future)
        seconds.append(done.seconds)
        return done

    dask.result = noted
    with Store.writing(tmp_path / "chunks.db") as store:
        assert runner.run(grid, store, executor=dask) == 4500
    learned = seconds[10:-5]
    print([round(s, 2) for s in seconds])
    assert len(learned) > 3
    assert 0.2 < statistics.median(learned) < 1
