"""Files of the kernel cache: files that are damaged, or that another user could have written, are not loaded."""

import errno
import io
import os
import pickle
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import quadsim as qs
from quadsim.engine.compiled import compiler, kernel_cache, kernel_source

SOLVE = (  # with the kernel of long runs, which is a single file
    "import quadsim as qs; from quadsim.engine.compiled import batching; batching.MAX_SMALL_WORK = 0; "
    "print(float(qs.solve(qs.case(3), qs.GD(), max_steps=100, engine='compiled').loss[-1]).hex())"
)
NOBODY = 65534
LONG_PATH = "/dev/null/" + 5 * ("x" * 200 + "/")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def process(folder, code=SOLVE):
    """Run the code with its kernels in this folder."""
    env = os.environ | {"QUADSIM_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300)


def check(done, expected, stderr=""):
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, expected, stderr)


@pytest.fixture
def identity():
    return compiler._identity(kernel_source.kernel_text(qs.GD, 1))


def only_file(folder):
    [path] = folder.iterdir()
    return path


def loads(monkeypatch, folder, identity):
    """Whether this process would load the kernel from there."""
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(folder))
    return kernel_cache.load(identity) is not None


@pytest.fixture(autouse=True)
def forget_log(monkeypatch):
    monkeypatch.setattr(kernel_cache, "_has_logged", False)


# ---- another user


class Planted:
    """Prints when it is unpickled."""

    def __reduce__(self):
        return print, ("planted code runs",)


def plant(folder, identity):
    """Replace the kernel by one with a valid checksum that runs other code."""
    content = pickle.dumps(Planted())
    digest = kernel_cache._digest(identity, content)
    only_file(folder).write_bytes(kernel_cache.MAGIC + digest + content)


@pytest.mark.slow
def test_planted_code_would_run_from_a_trusted_folder(cache, identity, expected):
    """Negative control: without the checks of owner and mode, planted code runs."""
    plant(cache, identity)
    done = process(cache)
    assert done.stdout.split("\n")[0] == "planted code runs"
    assert done.stdout.split("\n")[-2] == expected


def give(path):
    os.chown(path, NOBODY, NOBODY)


def mode(bits):
    return lambda path: path.chmod(bits)


def of_another_user(path):
    return f"{kernel_cache._shown(path)} belongs to another user"


def writable(path):
    return f"{kernel_cache._shown(path)} can be written by other users"


FOREIGN = {
    "the folder belongs to another user": (lambda cache: give(cache), of_another_user),
    "its parent does": (lambda cache: give(cache.parent), lambda cache: of_another_user(cache.parent)),
}
WRITABLE = {
    "the group can write": (mode(0o770), writable),
    "all can write": (mode(0o707), writable),
    "all can write, sticky": (mode(0o1777), writable),
    "the group can write to its parent": (
        lambda cache: cache.parent.chmod(0o775),
        lambda cache: writable(cache.parent),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("link", [False, True], ids=["directly", "through a link"])
@pytest.mark.parametrize("what", [*(pytest.param(what, marks=as_root) for what in FOREIGN), *WRITABLE])
def test_a_folder_that_others_can_write_is_not_used(cache, identity, monkeypatch, caplog, tmp_path_factory, what, link):
    change, reason = (FOREIGN | WRITABLE)[what]
    plant(cache, identity)
    before, path = only_file(cache).read_bytes(), cache
    if link:
        path = tmp_path_factory.mktemp("links") / "link"
        path.symlink_to(cache)
    assert loads(monkeypatch, path, identity)
    change(cache)
    assert not loads(monkeypatch, path, identity)
    assert not kernel_cache.has(identity)
    kernel_cache.save(identity, b"content")
    cache.parent.chmod(0o700)
    assert only_file(cache).read_bytes() == before
    [line] = caplog.messages
    assert line.startswith(f"quadsim: kernels are compiled without a cache: {reason(cache)}; ")
    assert len(line) <= 200


@pytest.mark.slow
@pytest.mark.parametrize("what", [pytest.param("the folder belongs to another user", marks=as_root), "all can write"])
def test_a_process_runs_without_such_a_folder_and_logs_one_line(cache, identity, expected, what):
    change, reason = (FOREIGN | WRITABLE)[what]
    plant(cache, identity)
    change(cache)
    done = process(cache)  # looks for a kernel in the cache, and later saves one
    assert (done.returncode, done.stdout.strip()) == (0, expected)
    [line] = done.stderr.splitlines()
    assert line.startswith(f"quadsim: kernels are compiled without a cache: {reason(cache)}; ")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["/proc/quadsim", "/dev/null", LONG_PATH])
def test_a_folder_that_cannot_be_written_is_reported_in_one_line(folder, identity, monkeypatch, caplog):
    assert not loads(monkeypatch, folder, identity)
    kernel_cache.save(identity, b"content")
    [line] = caplog.messages
    assert line.startswith("quadsim: kernels are compiled without a cache: ")
    assert len(line) <= 200


@pytest.mark.slow
def test_a_process_runs_without_a_folder_that_cannot_be_written(expected):
    done = process(LONG_PATH)
    assert (done.returncode, done.stdout.strip()) == (0, expected)
    [line] = done.stderr.splitlines()
    assert line.startswith("quadsim: kernels are compiled without a cache: ")
    assert len(line) <= 200


def test_a_folder_of_another_user_without_root(cache, identity, monkeypatch, caplog):
    assert loads(monkeypatch, cache, identity)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert not loads(monkeypatch, cache, identity)
    assert not kernel_cache.has(identity)
    assert "belongs to another user" in caplog.text
    assert len(caplog.records) == 1  # logged once for two calls


BECOME = """
import functools, os, sys, quadsim as qs
from quadsim.engine.compiled import batching, compiler
batching.MAX_SMALL_WORK = 0  # the kernel of long runs, which is a single file
compiled = functools.cache(compiler._compile)
compiler._compile = lambda text, content=None: compiled(text) if content is None else sys.exit("a kernel was loaded")
solve = lambda: float(qs.solve(qs.case(3), qs.GD(), max_steps=100, engine='compiled').loss[-1]).hex()
solve()  # compiles, and imports files that another user may not be able to read
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
for folder in {folders!r}:
    compiler._kernel.cache_clear()
    compiler._compiled.clear()
    os.environ["QUADSIM_CACHE_DIR"] = folder
    print(solve())
    print(folder, file=sys.stderr)
"""


@pytest.mark.slow
@as_root
def test_another_user_loads_only_from_its_folder(filled, expected, tmp_path):
    """A process that has dropped root's rights does not load root's kernels; it writes its own."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pytest's folders are private, and made private again by each session
        _check_another_user(Path(folder), filled, expected, tmp_path)


def _check_another_user(folder, filled, expected, tmp_path):
    folder.chmod(0o755)
    cache, private = Path(shutil.copytree(filled, folder / "cache")), folder / "theirs"
    root_file = only_file(cache)
    for path in (cache, root_file):
        path.chmod(0o755)
    private.mkdir()
    give(private)
    done = process(tmp_path / "first", BECOME.format(nobody=NOBODY, folders=[str(private), str(cache)]))
    assert (done.returncode, done.stdout.split()) == (0, [expected, expected]), done.stderr
    own, line, shared = done.stderr.splitlines()
    assert (own, shared) == (str(private), str(cache))
    assert "belongs to another user; set QUADSIM_CACHE_DIR" in line
    assert only_file(private).stat().st_uid == NOBODY
    assert only_file(cache) == root_file


@as_root
def test_a_shared_parent_with_the_sticky_bit_is_trusted(cache, identity, monkeypatch):
    """As in /tmp: others can write there, but cannot rename files of this user."""
    cache.parent.chmod(0o1777)
    assert loads(monkeypatch, cache, identity)
    os.chown(cache.parent, NOBODY, NOBODY)  # the owner of the parent can
    assert not loads(monkeypatch, cache, identity)


def test_a_link_to_a_trusted_folder_is_followed(cache, identity, monkeypatch, tmp_path):
    (tmp_path / "link").symlink_to(cache)
    assert loads(monkeypatch, tmp_path / "link", identity)


def link_twice(path):
    os.link(path, path.parent.parent / "second")


def behind_link(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


FILES = {
    "of another user": (give, "belongs to another user"),
    "that the group can write": (mode(0o660), "can be written by other users"),
    "that all can write": (mode(0o606), "can be written by other users"),
    "with a second link": (link_twice, "is not a regular file with a single link"),
    "behind a symbolic link": (behind_link, ""),
    "that is a FIFO": (fifo, "is not a regular file"),
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=as_root if what == "of another user" else ()) for what in FILES]
)
def test_a_file_that_others_could_have_written_is_replaced(cache, identity, monkeypatch, caplog, what):
    change, reason = FILES[what]
    content = only_file(cache).read_bytes()
    change(only_file(cache))
    assert not loads(monkeypatch, cache, identity)
    assert reason in caplog.text
    kernel_cache.save(identity, content[len(kernel_cache.MAGIC) + kernel_cache.DIGEST_SIZE :])
    assert loads(monkeypatch, cache, identity)
    state = only_file(cache).lstat()
    assert stat.S_ISREG(state.st_mode)
    assert (stat.S_IMODE(state.st_mode), state.st_uid, state.st_nlink) == (0o600, os.geteuid(), 1)


def test_folders_and_files_are_private_with_any_umask(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        monkeypatch.setenv("QUADSIM_CACHE_DIR", str(tmp_path / "a" / "b"))
        kernel_cache.save("some kernel", b"content")
    finally:
        os.umask(before)
    assert kernel_cache.load("some kernel") == b"content"
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(tmp_path / "a" / "b").stat().st_mode) == 0o600


def test_a_folder_replaced_after_the_check_has_no_effect(cache, identity, monkeypatch, tmp_path):
    """The folder is swapped between the check and the read: the file is read from the folder that was checked."""
    other = Path(shutil.copytree(cache, tmp_path / "other"))
    content = kernel_cache.load(identity) if loads(monkeypatch, cache, identity) else None
    plant(other, identity)
    check_owner = kernel_cache._check_owner

    def replace(path, *arguments, **options):
        check_owner(path, *arguments, **options)
        if path == cache and other.exists():
            cache.rename(tmp_path / "away")
            other.rename(cache)

    monkeypatch.setattr(kernel_cache, "_check_owner", replace)
    assert kernel_cache.load(identity) == content
    assert not other.exists()  # it was replaced


@pytest.mark.slow
def test_worker_processes_do_not_repeat_the_reason(tmp_path):
    """Two processes and their parent: one line."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    arguments = [
        "sweep",
        "case=3",
        "optimizers=gd",
        "engine=compiled",
        "max_steps=20",
        "seed=0..3",
        f"store={tmp_path / 's.db'}",
        "workers=2",
    ]
    env = os.environ | {"QUADSIM_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "quadsim", *arguments], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("without a cache") == 1
    assert list((tmp_path / "cache").iterdir()) == []


# ---- damage


def flip(content, rng):
    """The bytes with 1 to 16 bits flipped."""
    damaged = bytearray(content)
    for bit in rng.sample(range(8 * len(damaged)), rng.randint(1, 16)):
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_flipped_bits_are_detected(cache, identity, monkeypatch):
    path, rng = only_file(cache), random.Random(1)
    content = path.read_bytes()
    assert loads(monkeypatch, cache, identity)
    head = range(8 * (len(kernel_cache.MAGIC) + kernel_cache.DIGEST_SIZE))  # every bit of it
    singly = [content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :] for bit in head]
    for damaged in singly + [flip(content, rng) for _ in range(300)]:
        path.write_bytes(damaged)
        assert kernel_cache.load(identity) is None
    path.write_bytes(content)
    assert kernel_cache.load(identity) is not None


def test_other_damage_is_detected(cache, identity, monkeypatch):
    path = only_file(cache)
    content = path.read_bytes()
    assert loads(monkeypatch, cache, identity)
    lengths = [0, 1, len(kernel_cache.MAGIC), 40, 49, 50, 4096, len(content) // 2, len(content) - 1]
    for damaged in [*(content[:n] for n in lengths), content + b"\0", content[1:], b"\0" * len(content)]:
        path.write_bytes(damaged)
        assert kernel_cache.load(identity) is None


def test_a_kernel_under_the_name_of_another_is_not_loaded(cache, identity, monkeypatch):
    """A renamed file is intact, but belongs to another identity."""
    other = compiler._identity(kernel_source.kernel_text(qs.SignGD, 1))
    path = only_file(cache)
    path.rename(cache / kernel_cache._name(other))
    assert not loads(monkeypatch, cache, other)
    assert not kernel_cache.has(identity)
    (cache / kernel_cache._name(other)).rename(path)
    assert loads(monkeypatch, cache, identity)


def check_flips(cache, expected, count, seed):
    """Damage the kernel and run a process, repeatedly: the numbers are the same, and the file is restored."""
    rng, path = random.Random(seed), only_file(cache)
    content, size = path.read_bytes(), path.stat().st_size
    for _ in range(count):
        path.write_bytes(flip(content, rng))
        check(process(cache), expected)
        assert abs(only_file(cache).stat().st_size - size) < 1000
    before = path.stat().st_mtime_ns
    hits = "\nimport sys\nk = next(m for n, m in sys.modules.items() if n.startswith('quadsim_kernel_'))"
    hits += "\nprint(sum(k.advance.stats.cache_hits.values()), sum(k.begin.stats.cache_misses.values()))"
    assert process(cache, SOLVE + hits).stdout.split() == [expected, "1", "0"]
    assert path.stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_damaged_kernel_is_replaced_by_one_that_the_next_process_loads(cache, expected):
    check_flips(cache, expected, 1, seed=2)


@pytest.mark.usefixtures("full")
def test_sixty_damaged_kernels_are_compiled_again(cache, expected):
    check_flips(cache, expected, 60, seed=3)


LOAD_AGAIN = """
compile = compiler._compile
module, good = compile(compiler.kernel_text(qs.GD, 1))  # as this numba compiles it
compiler._compile = lambda text, content=None: (module, good) if content is None else compile(text, content)
identity = compiler._identity(compiler.kernel_text(qs.GD, 1))
for content in (b"", pickle.dumps({}), pickle.dumps({"begin": (1, 2), "advance": (1, 2)}), b"no pickle"):
    kernel_cache.save(identity, content)
    compiler._kernel.cache_clear()
    assert compiler.kernel(qs.GD, 1) is module
    assert kernel_cache.load(identity) == good
"""


@pytest.mark.slow
def test_an_intact_file_that_numba_cannot_load_is_replaced(cache, expected):
    imports = "import pickle\nimport quadsim as qs\nfrom quadsim.engine.compiled import compiler, kernel_cache\n"
    check(process(cache, imports + LOAD_AGAIN + SOLVE), expected)
    assert only_file(cache).stat().st_size > 10_000


@pytest.mark.slow
def test_a_kill_while_a_kernel_is_written(tmp_path, cache, identity, monkeypatch):
    """The temporary file of the killed process is not loaded; it is removed once it is old."""
    content, folder = kernel_cache.load(identity) if loads(monkeypatch, cache, identity) else None, tmp_path / "new"
    die = "import os\nos.replace = lambda *names, **how: os._exit(9)\n"
    die += "from quadsim.engine.compiled import kernel_cache\n"
    assert process(folder, f"{die}kernel_cache.save({identity!r}, b'some content')").returncode == 9
    left = only_file(folder)
    assert left.name.startswith(".")
    assert not loads(monkeypatch, folder, identity)
    kernel_cache.save(identity, content)
    assert left in list(folder.iterdir())  # another process may still be writing it
    assert kernel_cache.load(identity) == content
    os.utime(left, (0, 0))
    [kernel] = set(folder.iterdir()) - {left}
    kernel.unlink()
    kernel_cache.save(identity, content)
    assert only_file(folder) == kernel


@pytest.mark.slow
def test_a_full_disk_disables_only_the_cache(tmp_path, identity, monkeypatch, caplog):
    class Full(io.FileIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "open", lambda file, mode: Full(file, mode), raising=False)
    kernel_cache.save(identity, b"content")  # does not raise
    [line] = caplog.messages
    assert line.startswith("quadsim: kernels are compiled without a cache: ")
    assert line.endswith(": No space left on device")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
def test_two_processes_at_once(tmp_path, expected):
    done = []
    threads = [threading.Thread(target=lambda: done.append(process(tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process_done in done:
        check(process_done, expected)
    only_file(tmp_path)


def test_readers_see_complete_files_while_others_write(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(tmp_path))
    contents, stop, seen = [bytes([n]) * 200_000 for n in range(4)], threading.Event(), []

    def write(content):
        while not stop.is_set():
            kernel_cache.save("shared", content)

    kernel_cache.save("shared", contents[0])
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    for _ in range(300):
        seen.append(kernel_cache.load("shared"))
    stop.set()
    for writer in writers:
        writer.join()
    assert set(seen) <= set(contents)
    only_file(tmp_path)


def test_numba_s_options_are_part_of_the_identity(identity, monkeypatch):
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert compiler._identity(kernel_source.kernel_text(qs.GD, 1)) != identity
