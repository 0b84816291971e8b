"""User-defined rules: they run in both engines, are cached and never stale, and errors name their line."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracles
import pytest
from kernels import slow_among, slow_except
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim import optimizers
from quadsim.cli.main import main
from quadsim.engine.compiled import kernel_source
from quadsim.optimizers import user_rules
from quadsim.optimizers.rule_source import RuleError

GOOD = """
import numpy as np
from math import sqrt
import quadsim as qs

EPS = 1e-8
BETAS = (0.9, 0.99)


def root(x, p=0.0):
    return sqrt(x) + EPS + p


@qs.rule(state="m v", label="Mine")
def my_adam(g, m, v, lr=0.01, beta1=0.9):
    m = beta1 * m + (1 - beta1) * g
    v = BETAS[1] * v + (1 - BETAS[1]) * g * g
    return lr * m / root(v), m, v


@qs.rule(scope="block", state=["v"])
def mini(step, g, v, lr=0.01):
    total = 0.0
    for i in range(g.size):
        total += g[i] * g[i]
    v[:] = 0.99 * v + 0.01 * total / g.size
    step[:] = lr * g / root(v[0])


@qs.rule(scope="all")
def normalised(step, g, lr=0.01):
    step[:] = lr * g / np.sqrt(np.sum(g * g))


@qs.rule(random_by="block", homogeneous=True)
def half(g, w, t, random, lr=1e-4, decay=0.0):
    return lr * (g + decay * w) * 2 if random < 0.5 and t > 3 else 0.0


def gathered(weight, beta=0.9):
    weight = beta * weight + (1 - beta)
    return weight, 1 / weight


@qs.rule(state="m", once_per_step=gathered, shared_state="weight, unbias")
def unbiased(g, m, unbias, lr=1e-4, beta=0.9):
    m = beta * m + (1 - beta) * g
    return lr * m * unbias, m
"""
NAMES = ["my-adam", "mini", "normalised", "half", "unbiased"]


@pytest.fixture(autouse=True)
def registry():
    """Restore the registry after each test."""
    before = dict(optimizers.OPTIMIZERS)
    yield
    optimizers.OPTIMIZERS.clear()
    optimizers.OPTIMIZERS.update(before)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "my_rules.py"
    path.write_text(GOOD)
    assert user_rules.load(str(path)) == NAMES
    return path


def oracle(name, problem, steps, seed):
    """Each of the rules above as a loop in numpy."""
    e, state, losses = problem.initial_error(seed), np.zeros((2, problem.dim)), []
    blocks = np.repeat(np.arange(len(problem.sizes)), problem.sizes)
    for t in range(1, steps + 2):
        losses.append(0.5 * e @ problem.hvp(e))
        g = problem.hvp(e)
        if name == "my-adam":
            state = np.array([0.9 * state[0] + 0.1 * g, 0.99 * state[1] + (1 - 0.99) * g * g])
            step = 0.01 * state[0] / (np.sqrt(state[1]) + 1e-8)
        elif name == "mini":
            mean = np.concatenate([np.full(len(part), np.mean(part**2)) for part in problem.split(g)])
            state[0] = 0.99 * state[0] + 0.01 * mean
            step = 0.01 * g / (np.sqrt(state[0]) + 1e-8)
        elif name == "normalised":
            step = 0.01 * g / np.linalg.norm(g)
        elif name == "half":
            kept = oracles.uniforms(seed, t, len(problem.sizes))[blocks] < 0.5
            step = np.where(kept & (t > 3), 2e-4 * g, 0.0)
        else:
            state[0] = 0.9 * state[0] + 0.1 * g
            step = 1e-4 * state[0] / (1 - 0.9**t)
        e = e - step
    return losses


@pytest.mark.parametrize("name", slow_except(NAMES, "my-adam"))
def test_a_rule_agrees_with_plain_numpy(good, name):
    problem = qs.case(3, seed=1, minimizer=np.arange(9.0))
    run = qs.solve(problem, optimizers.by_name(name), seed=4, max_steps=60, tol=0, record=1)
    assert_allclose(run.loss, oracle(name, problem, 60, 4), rtol=1e-11)
    assert run.optimizer.name == name


@pytest.mark.slow  # two kernels for each rule; test_zoo has lanes of every kind of rule
@pytest.mark.parametrize("name", ["my-adam", "half"])
def test_a_rule_gives_the_same_bits_alone_and_in_a_batch(good, name, fastest_kernels):
    problem = qs.case(3, seed=1, minimizer=np.arange(9.0))
    run = qs.solve(problem, optimizers.by_name(name), seed=4, max_steps=60, tol=0, record=1)
    lanes = qs.solve(problem, optimizers.by_name(name), seed=range(4, 13), max_steps=60, tol=0, record=1)
    assert_array_equal(lanes[0].loss, run.loss)
    assert lanes[1].loss[-1] != run.loss[-1]


def test_a_rule_becomes_an_optimizer_class(good):
    kind = optimizers.OPTIMIZERS["my-adam"]
    assert (kind.label, kind.state, kind.user_defined) == ("Mine", ("m", "v"), True)
    assert kind(lr=0.1).settings() == {"lr": 0.1, "beta1": 0.9}
    assert optimizers.OPTIMIZERS["half"]().random_by == "block"
    with pytest.raises(ValueError, match=r"my-adam\.lr must be a finite number above 0"):
        kind(lr=-1)


def test_rules_work_on_the_command_line(good, tmp_path, capsys):
    out = f"out={tmp_path / 'figures'}"
    arguments = ["case=3", f"rules={good}", "optimizers=my-adam", "my-adam.beta1=0.5", "max_steps=50", "--json", out]
    assert main(arguments) == 0
    assert '"beta1": 0.5' in capsys.readouterr().out
    assert main(["list", "optimizers", f"rules={good}"]) == 0
    assert "normalised" in capsys.readouterr().out
    assert main(["cases", "case=3", "seed=0..2", f"rules={good}", "optimizers=my-adam", "max_steps=40", out]) == 0


@pytest.mark.slow
def test_weight_decay_pulls_towards_zero_and_not_to_the_minimizer(good):
    problem = qs.case(3, minimizer=np.full(9, 2.0))
    plain, decayed = (
        qs.solve(problem, optimizers.by_name("half", decay=decay), seed=4, max_steps=3000, tol=0).w
        for decay in (0.0, 1.0)
    )
    assert np.linalg.norm(decayed) < np.linalg.norm(plain)


@pytest.fixture
def error_of(tmp_path, monkeypatch):
    """The message of the error for a file of rules: when it is loaded, or when its rules run for so many steps."""
    monkeypatch.chdir(tmp_path)

    def load_and_run(max_steps):
        for name in user_rules.load("bad.py"):
            if max_steps is not None:
                qs.solve(qs.case(3), optimizers.by_name(name), max_steps=max_steps, tol=0)

    def message(text, max_steps=None):
        Path("bad.py").write_text(text)
        with pytest.raises(RuleError) as raised:
            load_and_run(max_steps)
        return str(raised.value)

    return message


BAD = {
    "a syntax error": (3, "def a(g, lr=0.1)\n    return lr * g", "not Python (expected ':')"),
    "too few values": (4, "def a(g, m, lr=0.1):\n    return lr * g", "returns 1 value instead of 2 (step, m)", "m"),
    "too many, unseen": (3, "def a(g, m, lr=0.1):\n    out = g, m, m\n    return out", "returns 3 values", "m"),
    "no gradient": (3, "def a(x, lr=0.1):\n    return lr * x", "must have the parameter g"),
    "no learning rate": (3, "def a(g):\n    return g", "must have a learning rate"),
    "no default": (3, "def a(g, lr):\n    return lr * g", "lr must have a default"),
    "any number of arguments": (3, "def a(g, *rest, lr=0.1):\n    return lr * g", "*rest must be a plain parameter"),
    "the name of a key": (3, "def noise(g, scale=1.0, lr=0.1):\n    return lr * g", "noise.scale= is a key"),
    "a name that is taken": (3, "def adam(g, lr=0.1):\n    return lr * g", "optimizer adam exists already"),
    "nothing returned": (3, "def a(g, lr=0.1):\n    lr * g", "may return nothing"),
    "a branch without return": (3, "def a(g, lr=0.1):\n    if g > 0:\n        return lr * g", "may return nothing"),
    "a learning rate of 0": (3, "def a(g, lr=0):\n    return lr * g", "the setting lr must be a finite number above 0"),
    "a setting of another meaning": (3, "def a(g, scope=2.0, lr=0.1):\n    return lr * g", "scope is reserved"),
    "a setting called label": (3, "def a(g, label=2.0, lr=0.1):\n    return lr * g", "label is reserved"),
    "a setting that is a column": (3, "def a(g, median=2.0, lr=0.1):\n    return lr * g", "median is reserved"),
    "a column of tuning": (3, "def a(g, underflow=2.0, lr=0.1):\n    return lr * g", "underflow is reserved"),
    "a column of problems": (3, "def a(g, minimizer=2.0, lr=0.1):\n    return lr * g", "minimizer is reserved"),
    "a decorator": (2, "@wraps\ndef a(g, lr=0.1):\n    return lr * g", "has a decorator"),
    "an async function": (2, "async def a(g, lr=0.1):\n    return lr * g", "is an async function"),
    "a function inside": (4, "def a(g, lr=0.1):\n    f = lambda x: x\n    return lr * f(g)", "contains a function"),
    "one name for two": (4, "def a(g, lr=0.1):\n    y = [N for N in (1, 2)]\n    return N + y[0]", "is both a local"),
    "a complex step": (3, "def a(g, lr=0.1):\n    return lr * g * 1j", "must return real numbers, got"),
    "no number": (3, "def a(g, m, lr=0.1):\n    return lr * g, (m,)", "must return real numbers, got", "m"),
    "an exception": (3, "def a(g, lr=0.1):\n    assert g > 1e9\n    return g", "raised AssertionError"),
    "a list": (5, "def a(g, lr=0.1):\n    x = g\n    return x * TABLE[0]\n\nTABLE = [1]", "uses 'TABLE', a list"),
    "an array": (4, "def a(g, lr=0.1):\n    return g * ONES[0]\n\nONES = np.ones(3)", "uses 'ONES', a ndarray"),
    "a module": (4, "def a(g, lr=0.1):\n    return g * os.pi\n\nimport os", "uses the module 'os'"),
    "a global that it changes": (4, "def a(g, lr=0.1):\n    global N\n    N = 1\n    return g", "changes a global"),
    "a name that is not there": (4, "def a(g, lr=0.1):\n    return g * nothing", "'nothing', which is not defined"),
    "what cannot be compiled": (4, 'def a(g, lr=0.1):\n    x = g + "one"\n    return lr * x', "cannot be compiled"),
    "a helper that cannot": (6, "def a(g, lr=0.1):\n    return h(g)\ndef h(x):\n    return x.foo", "attribute 'foo'"),
    "nan": (5, "def a(g, lr=0.1):\n    x = -abs(g)\n    y = np.sqrt(x)\n    return lr * y", "gave nan at step 1 with"),
    "nan in a helper": (6, "def a(g, lr=0.1):\n    return h(g)\ndef h(x):\n    return np.log(-abs(x))", "gave nan"),
    "nan late": (5, "def a(g, t, lr=1.0):\n    x = 4 - t\n    y = np.sqrt(x)\n    return lr * y", "gave nan at step 5"),
    "nan in the state": (4, "def a(g, m, lr=0.1):\n    n = np.log(-abs(g))\n    return m, n", "gave nan at", "m"),
    "beside a default": (4, "def a(g, lr=0.1):\n    return h(g) + g.foo\ndef h(x, p=2.0):\n    return x * p", "'foo'"),
}  # fmt: skip


# These are compiled, at least in part.
COMPILED = (
    "too many, unseen", "no number", "an exception", "what cannot be compiled", "a helper that cannot",
    "nan in a helper", "nan late", "nan in the state", "beside a default",
)  # fmt: skip


@pytest.mark.parametrize("what", slow_among(BAD, *COMPILED))
def test_errors_name_the_line_of_the_rule(what, error_of):
    line, text, sentence, *state = BAD[what]
    decorator = f"@qs.rule(state={' '.join(state)!r})" if state else "@qs.rule"
    Path("odd.py").write_text(
        "import functools\nN = 2\ndef wraps(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n"
        "        return f(*a, **k)\n    return inner\n"
    )
    message = error_of(f"import numpy as np, quadsim as qs; from odd import N, wraps\n{decorator}\n{text}\n", 20)
    assert message.startswith(f"bad.py:{line}: ")
    assert sentence in message
    assert "\n" not in message
    assert message.endswith(Path("bad.py").read_text().splitlines()[line - 1].strip())


BAD_BLOCKS = {
    "another array": (5, "", "def a(step, g, lr=0.1):\n    step[:] = g\n    step = lr * g", "step must be changed in"),
    "another state": (4, "m", "def a(step, g, m, lr=0.1):\n    m = m + g\n    step[:] = lr * m", "m must be changed"),
    "a value": (4, "", "def a(step, g, lr=0.1):\n    return f(g)", "a rule for a whole block fills `step`"),
    "out of bounds": (3, "", "def a(step, g, lr=0.1):\n    step[g.size + 3000000] = 1.0", "raised IndexError"),
}  # fmt: skip


@pytest.mark.parametrize("what", slow_among(BAD_BLOCKS, "out of bounds"))
def test_errors_in_a_rule_for_blocks(what, error_of):
    line, state, text, sentence = BAD_BLOCKS[what]
    message = error_of(f"import quadsim as qs\n@qs.rule(scope='block', state={state!r})\n{text}\n", max_steps=2)
    assert message.startswith(f"bad.py:{line}: ")
    assert sentence in message


BAD_ONCE_PER_STEP = {
    "the gradient": ("def tk(g, c):\n    return g, c", "cannot have g"),
    "too many values": ("def tk(c):\n    return c, c", "tk returns 2 values instead of 1 (c)"),
    "nothing": ("def tk(c):\n    c = 1.0", "tk may return nothing"),
    "another default": (
        "def tk(c, beta=0.5):\n    return c * beta",
        "beta has the default 0.25 here, and 0.5 in once_per_step",
    ),
    "nan": ("def tk(c, t):\n    return np.sqrt(3 - t)", "bad.py:3: tk gave nan at step 4 with c = 0, t = 4"),
}


@pytest.mark.parametrize("what", slow_among(BAD_ONCE_PER_STEP, "nan"))
def test_errors_in_once_per_step(what, error_of):
    text, sentence = BAD_ONCE_PER_STEP[what]
    assert sentence in error_of(
        f"import numpy as np, quadsim as qs\n{text}\n@qs.rule(once_per_step=tk, shared_state='c')\n"
        "def a(g, c, lr=1e-4, beta=0.25):\n    return lr * g * (1 + c)\n",
        max_steps=20,
    )


SHARED = "once_per_step=tk, shared_state='weight'"
UNDECLARED = {  # declaration, signature, part of the sentence
    "an unknown name": ("", "g, loss, lr=1.0", "undeclared loss: given are g, w, t, random; a setting needs a default"),
    "how to declare it": ("", "g, m, v, lr=1.0", 'undeclared m, v: given are g, w, t, random; a setting needs a '
                          'default; state is declared by @rule(state="m v")'),
    "one more": ("state='m'", "g, m, v, lr=1.0", 'state is declared by @rule(state="m v")'),
    "the gradient's name": ("", "g, grad, lr=1.0", "undeclared grad (did you mean g?): "),
    "the weight's": ("", "g, weights, lr=1.0", "undeclared weights (did you mean w?): "),
    "another case": ("", "g, T, lr=1.0", "undeclared T (did you mean t?): "),
    "a misspelling": ("", "g, randon, lr=1.0", "undeclared randon (did you mean random?): "),
    "of a setting": ("", "g, beta, lr=1.0, beta1=0.9", "undeclared beta (did you mean beta1?): "),
    "of state": ("state='mean'", "g, maen, lr=1.0", "undeclared maen (did you mean mean?): "),
    "of shared_state": (SHARED, "g, wieght, lr=1.0", "undeclared wieght (did you mean weight?): "
                        "given are g, w, t, random, weight; "),
    "many": ("", f"g, {', '.join(f'a{n}' for n in range(200))}, lr=1.0", "undeclared a0, a1, a2, a3, a4, a5, a6, a"),
    "step": ("", "g, step, lr=1.0", 'step is given to rules with scope="block" or "all" only'),
    "of a block": ("scope='block'", "step, g, v, lr=1.0", "undeclared v: given are g, w, t, random, step; "),
    "of all": ("scope='all', state='m'", "step, g, m, v, lr=1.0", 'declared by @rule(state="m v")'),
    "state that is no parameter": ("state='m v'", "g, m, lr=1.0", "v is declared as state, and is not a parameter"),
    "state with a default": ("state='m'", "g, m=0.5, lr=1.0", "m is state, which starts at 0, and cannot"),
    "shared_state with a default": (SHARED, "g, weight=1.0, lr=1.0", "weight is shared_state, which starts at 0"),
    "state that is given": ("state='t'", "g, t, lr=1.0", "t has a fixed meaning and cannot be state"),
    "the learning rate": ("state='lr'", "g, lr=1.0", "lr has a fixed meaning and cannot be state"),
    "the step": ("state='step'", "g, step, lr=1.0", "step has a fixed meaning and cannot be state"),
    "a reserved name": ("state='label'", "g, label, lr=1.0", "label is reserved: rename this parameter"),
    "a name twice": ("state='m m'", "g, m, lr=1.0", "state lists m twice"),
    "no name": ("state='m-v'", "g, m, lr=1.0", "state must list names, as in state=\"m v\", got 'm-v'"),
    "a number": ("state=3", "g, m, lr=1.0", "state must list names, as in state=\"m v\", got 3"),
    "numbers": ("state=(3,)", "g, m, lr=1.0", "state must list names, as in state=\"m v\", got 3"),
    "nothing at all": ("state=None", "g, m, lr=1.0", "state must list names, as in state=\"m v\", got None"),
    "state and shared_state": (f"{SHARED}, state='weight'", "g, weight, lr=1.0", "tk is called once per step, "
                               "and cannot have weight"),
    "no once_per_step": ("shared_state='weight'", "g, weight, lr=1.0", "shared_state requires once_per_step"),
    "no shared_state": ("once_per_step=tk", "g, weight, lr=1.0", 'must be declared: @rule(shared_state="weight")'),
    "one more in shared_state": ("once_per_step=tk, shared_state='weight extra'", "g, lr=1.0",
                                 "tk returns 1 value instead of 2 (weight, extra)"),
    "a set, without order": ("state={'m', 'v'}", "g, m, v, lr=1.0", "state must list names"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNDECLARED)
def test_parameters_are_given_declared_or_have_a_default(what, error_of):
    declaration, parameters, sentence = UNDECLARED[what]
    decorator = f"@qs.rule({declaration})" if declaration else "@qs.rule"
    before = dict(optimizers.OPTIMIZERS)
    message = error_of(
        "import quadsim as qs\ndef tk(weight):\n    return weight + 1\n"
        f"{decorator}\ndef a({parameters}):\n    return unlike_all_else(lr * g)\n"
    )
    assert sentence in message
    assert message.startswith(("bad.py:5: ", "bad.py:2: ", "bad.py:3: tk "))
    assert len(message) <= 190
    assert before == optimizers.OPTIMIZERS


def test_the_error_for_an_undeclared_parameter_names_its_line(error_of):
    message = error_of(
        "import quadsim as qs\n@qs.rule(\n    state='m',\n)\ndef a(\n    g,\n    m,\n    loss,\n    lr=1.0,\n):\n"
        "    return lr * loss * g, m\n"
    )
    assert message.startswith("bad.py:8: undeclared loss: ")
    assert message.endswith('@rule(state="m loss"): loss,')


UNDECLARED_SHARED_STATE = {
    "an unknown name": ("def tk(c, loss):\n    return c", "c", "undeclared loss: given are t; a setting needs a "
                        'default; shared_state is declared by @rule(shared_state="c loss")'),
    "a misspelling": ("def tk(weigth):\n    return weigth", "weight", "undeclared weigth (did you mean weight?): "),
    "state": ("def tk(c, m):\n    return c", "c", "tk is called once per step, and cannot have m"),
    "nothing declared": ("def tk(c, n):\n    return c, n", "", '@rule(shared_state="c n")'),
    "without parameters": ("def tk(t):\n    return t", "", '@rule(shared_state="weight")'),
    "a default": ("def tk(c=1.0):\n    return c", "c", "c is shared_state, which starts at 0, and cannot"),
    "unused": ("def tk(c):\n    return c, c", "c d", "shared_state lists d, which neither the rule nor"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNDECLARED_SHARED_STATE)
def test_shared_state_is_declared(what, error_of):
    text, shared_state, sentence = UNDECLARED_SHARED_STATE[what]
    message = error_of(
        f"import quadsim as qs\n{text}\n@qs.rule(once_per_step=tk, shared_state={shared_state!r}, state='m')\n"
        f"def a(g, m, lr=1.0):\n    return lr * g, m\n"
    )
    assert sentence in message
    assert len(message) <= 190


def test_shared_state_may_be_returned_and_not_read_by_once_per_step(good):
    assert optimizers.OPTIMIZERS["unbiased"].shared_state == ("weight", "unbias")


@pytest.mark.parametrize("state", ["m v", "m,v", " m ,  v ", ("m", "v"), ["m", "v"]], ids=repr)
def test_state_is_declared_as_text_or_as_a_sequence(state):
    @qs.rule(state=state)
    def declared(g, v, m, lr=1.0):
        return lr * g, m, v

    assert declared.state == ("m", "v")  # in the declared order, as values are returned


def test_rule_takes_keywords_only(check_refused):
    check_refused(lambda: qs.rule("m v"), "@rule('m v') takes keywords only: write @rule(state=…)")


ODD = """
import enum, numpy as np, quadsim as qs
from math import sqrt
class Kind(enum.IntEnum):
    TWO = 2
TWO = Kind.TWO
ONE = np.float64(1.0)
MINUS = -0.0
\f
def quadsim_rule_1_helper(x):
    return x * ONE
@qs.rule(state="np math at k new0")
def odd(g, np, math, at, k, new0, lr=1e-5, Beta=0.5, flag=True):
    update = [i * 1.0 for i in range(3)]
    tick = sqrt(update[2] * TWO) + MINUS
    return lr * quadsim_rule_1_helper(g) * tick * Beta * flag, np, math, at, k, new0
"""


@pytest.mark.slow
def test_unusual_names_and_constants(tmp_path, capsys):
    """Names that the kernel uses, a form feed in the file, members of an Enum, a setting in capitals."""
    path = tmp_path / "odd rules.py"
    path.write_text("\ufeff" + ODD.replace("\n", "\r\n"), encoding="utf-8", newline="")
    user_rules.load(str(path))
    problem = qs.case(3)
    run = qs.solve(problem, optimizers.by_name("odd"), max_steps=20, tol=0)
    assert_allclose(
        run.loss[-1], qs.solve(problem, qs.GD(lr=1e-5), max_steps=20, tol=0, engine="compiled").loss[-1], rtol=1e-12
    )
    arguments = ["case=3", f"rules={path}", "optimizers=odd", "odd.Beta=1", "max_steps=20", "--json", f"out={tmp_path}"]
    assert main(arguments) == 0
    assert '"Beta": 1.0' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "homogeneous"),
    [
        ("def a(g, m, lr=0.1):\n    return lr * g, m", True),
        ("def a(g, m, w, t, lr=0.1):\n    m = 0.9 * m + g + 0.1 * w\n    return lr * m / t, m", True),
        ("def a(g, m, lr=0.1):\n    m = 0.9 * m + g\n    return lr * np.sign(m), m", False),
        ("def a(g, m, lr=0.1):\n    m = 0.9 * m + g * g\n    return lr * g / (np.sqrt(m) + 1e-8), m", False),
        ("def a(g, m, lr=0.1):\n    return lr * g * g * g, m", False),
    ],
)
def test_homogeneity_is_determined_by_a_trial(text, homogeneous, tmp_path):
    """Runs of a homogeneous rule are not stopped when a block underflows."""
    (tmp_path / "some.py").write_text(f"import numpy as np, quadsim as qs\n@qs.rule(state='m')\n{text}\n")
    user_rules.load(str(tmp_path / "some.py"))
    assert optimizers.OPTIMIZERS["a"].homogeneous == homogeneous


@pytest.mark.slow
def test_gd_written_as_a_rule_converges_where_gd_does(good):
    problem, lr = qs.case(3, seed=30), 10**-3.5
    runs = [
        qs.solve(problem, one, seed=30, engine="compiled")
        for one in (qs.GD(lr=lr), optimizers.by_name("unbiased", lr=lr, beta=0.0))
    ]
    assert runs[0].steps_to_tol == runs[1].steps_to_tol is not None


@pytest.mark.slow
def test_files_in_two_folders_import_modules_of_the_same_name(tmp_path):
    for name, scale in (("old", 1.0), ("new", 3.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "neighbour_of_rules.py").write_text(f"def scale(x):\n    return {scale} * x\n")
        (tmp_path / name / "my.py").write_text(
            f"import quadsim as qs\nfrom neighbour_of_rules import scale\n@qs.rule\n"
            f"def {name}_rule(g, lr=1e-5):\n    return lr * scale(g)\n"
        )
        user_rules.load(str(tmp_path / name / "my.py"))
    problem = qs.case(3)
    for name, lr in (("old-rule", 1e-5), ("new-rule", 3e-5)):
        run = qs.solve(problem, optimizers.by_name(name), max_steps=1, tol=0)
        assert_allclose(
            run.loss[-1], qs.solve(problem, qs.GD(lr=lr), max_steps=1, tol=0, engine="compiled").loss[-1], rtol=1e-12
        )


def test_two_files_cannot_define_the_same_name(tmp_path, capsys):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("import quadsim as qs\n@qs.rule\ndef same(g, lr=1e-5):\n    return lr * g\n")
    assert main(["case=3", f"rules={tmp_path / 'one.py'},{tmp_path / 'two.py'}", "optimizers=same"]) == 2
    assert "optimizer same is defined in" in capsys.readouterr().err


@pytest.mark.slow
def test_nan_in_a_rule_for_blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(
        "import numpy as np, quadsim as qs\n@qs.rule(scope='block')\ndef a(step, g, lr=0.1):\n"
        "    size = np.sqrt(-np.sum(g * g))\n    step[:] = lr * g / size\n"
    )
    user_rules.load("bad.py")
    with pytest.raises(RuleError, match=r"bad\.py:4: a gave nan at step 1 with lr = 0\.1: size = "):
        qs.solve(qs.case(3), optimizers.by_name("a"), noise=qs.Noise(batch=9), max_steps=20, tol=0)


@pytest.mark.slow
def test_divergence_is_not_an_error_of_the_rule(good):
    """The control: overflow is a status of the run."""
    run = qs.solve(qs.case(3), optimizers.by_name("half", lr=1.0), max_steps=2000, tol=0)
    assert run.status == "diverged"


def test_errors_on_the_command_line_are_one_line_and_write_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, message in (("x = 1", "registers no rule"), ("x = 1/0", "bad.py:1: ZeroDivisionError")):
        Path("bad.py").write_text(text)
        assert main(["case=3", "rules=bad.py", "optimizers=a"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert main(["case=3", "rules=none.py", "optimizers=a"]) == 2
    assert "cannot be read (No such file" in capsys.readouterr().err
    assert os.listdir() == ["bad.py"]


PRINT = """
import sys, quadsim as qs
from quadsim import optimizers
from quadsim.optimizers import user_rules
user_rules.load("my_rules.py")
run = qs.solve(qs.case(3), optimizers.by_name("a"), max_steps=1, tol=0)
kernels = [module for name, module in sys.modules.items() if name.startswith("quadsim_kernel_")]
functions = [getattr(kernel, "advance", None) or kernel.apply_rule for kernel in kernels]
print(float(run.loss[-1]).hex(), sum(sum(function.stats.cache_hits.values()) for function in functions))
"""
RULE = """
import quadsim as qs
from neighbour import other
FACTOR = 1e-5
def helper(x):
    return 1.0 * x
@qs.rule
def a(g, lr=1.0):
    return FACTOR * lr * helper(g) * other(1.0)
"""


EDITS = {  # of the rule, of its constants, of its helpers in its file and in another; and the lr that results
    "none": ("", "", 1e-5),
    "a constant": ("FACTOR = 1e-5", "FACTOR = 2e-5", 2e-5),
    "a helper": ("return 1.0 * x", "return 3.0 * x", 3e-5),
    "the rule": ("FACTOR * lr", "0.5 * FACTOR * lr", 5e-6),
    "a helper elsewhere": ("    return x\n", "    return 2 * x\n", 2e-5),
}
NEIGHBOUR = "def other(x):\n    return x\n"


def write_rule(folder, edit):
    old, new, lr = EDITS[edit]
    assert not old or (RULE + NEIGHBOUR).count(old) == 1
    for name, text in (("my_rules.py", RULE), ("neighbour.py", NEIGHBOUR)):
        (folder / name).write_text(text.replace(old, new) if old else text)
    return lr


def test_each_edit_changes_the_kernel(tmp_path):
    """So no stale kernel is loaded: the text of a kernel is part of its name in the cache."""
    texts = set()
    for number, edit in enumerate(EDITS):
        folder = tmp_path / str(number)
        folder.mkdir()
        lr = write_rule(folder, edit)
        user_rules.load(str(folder / "my_rules.py"))
        kind = optimizers.OPTIMIZERS.pop("a")
        assert kind.rule(1.0) == pytest.approx(lr, rel=1e-12)
        texts.add(kernel_source.kernel_text(kind, 1))
    assert len(texts) == len(EDITS)


@pytest.mark.slow
def test_a_rule_is_cached_between_processes_and_never_stale(tmp_path):
    """With one cache; the edit is of a file that the file of the rule imports. The generic kernel is cached as well."""

    def process():
        env = os.environ | {"QUADSIM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        loss, hits = done.stdout.split()
        return float.fromhex(loss), int(hits)

    for edit, hits in (("none", 0), ("a helper elsewhere", 1), ("none", 2)):  # at last what was compiled first
        lr = write_rule(tmp_path, edit)
        expected = qs.solve(qs.case(3), qs.GD(lr=lr), max_steps=1, tol=0, engine="compiled").loss[-1]
        assert process() == (pytest.approx(expected, rel=1e-12), hits)


SCALE = 1e-5


@pytest.mark.slow
def test_a_constant_that_changes_within_a_process(monkeypatch):
    @qs.rule
    def scaled(g, lr=1.0):
        return SCALE * lr * g

    problem = qs.case(3)
    for scale in (1e-5, 2e-5, 1e-5):
        monkeypatch.setitem(globals(), "SCALE", scale)
        run = qs.solve(problem, scaled(), max_steps=1, tol=0)
        assert run.loss[-1] == pytest.approx(
            qs.solve(problem, qs.GD(lr=scale), max_steps=1, tol=0, engine="compiled").loss[-1], rel=1e-12
        )


def test_a_file_edited_after_import_is_refused(tmp_path, monkeypatch):
    """The helper in memory is old and its text is new: neither may be compiled in place of the other."""
    import importlib

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "edited_helper.py").write_text("def edited(x):\n    return x\n")
    helper = importlib.import_module("edited_helper")
    (tmp_path / "edited_helper.py").write_text("def edited(x):\n    return 2 * x\n")
    monkeypatch.setitem(globals(), "edited", helper.edited)

    @qs.rule
    def uses_it(g, lr=1e-5):
        return lr * edited(g)  # noqa: F821

    with pytest.raises(RuleError, match="the text of edited has changed since it was loaded"):
        qs.solve(qs.case(3), uses_it(), max_steps=1)


def test_a_decorated_rule_is_refused_after_its_function_was_used():
    """The control for the stored text: functools.wraps copies the attributes of the function that it wraps."""

    def plain(g, lr=0.1):
        return lr * g

    @functools.wraps(qs.rule(plain).rule)
    def doubled(*arguments):
        return 2 * plain(*arguments)

    with pytest.raises(RuleError, match="plain has a decorator, which cannot be compiled"):
        qs.rule(doubled)


@pytest.mark.parametrize("name", ["a.b", "a,b", "a=b", "a b", "", "1a", 3, "a;b"])
def test_a_name_must_be_valid_on_the_command_line(name):
    def plain(g, lr=0.1):
        return lr * g

    with pytest.raises(RuleError, match="name must be a word such as my-rule, got"):
        qs.rule(name=name)(plain)
    assert name not in optimizers.OPTIMIZERS


def test_columns_are_reserved_names():
    """Settings are columns of the same tables."""
    problem = qs.case(3, kappa=5)
    runs = qs.table.summary([qs.solve(problem, qs.GD(), max_steps=2, engine="compiled")])
    tuned = qs.tune(problem, qs.GD(), seed=[0], grid=[0.01, 0.02], max_steps=2, refine=0, extend=0).tried
    assert {*runs, *tuned} - set(qs.GD().settings()) <= user_rules.RESERVED_COLUMNS | user_rules._attributes()
