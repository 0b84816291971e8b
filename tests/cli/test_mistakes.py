"""The mistakes that people make on the command line, each with its answer: one line, exit code 2, what to write."""

import importlib
import shlex

import pytest

from quadsim import _discovery
from quadsim._validation import InputError
from quadsim.cli import arguments, help_text, mistakes, names, synonyms

LINE = "write python -m quadsim "
MISTAKES = [  # a line in a shell's syntax, and what the answer ends with, or what it contains
    # words that are not key=value
    ("case 3", LINE + "case=3"),
    ("--case 3", LINE + "case=3"),
    ("-case 3", LINE + "case=3"),
    ("case3", LINE + "case=3"),
    ("run case3", LINE + "run case=3"),
    ("case:3", LINE + "case=3"),
    ("case: 3", LINE + "case=3"),
    ("case = 3", LINE + "case=3"),
    ("case= 3", LINE + "case=3"),
    ("case =3", LINE + "case=3"),
    ("case==3", LINE + "case=3"),
    ("3", LINE + "case=3"),
    ("cases 3", LINE + "cases case=3"),
    ("case=3 kappa 100", LINE + "case=3 kappa=100"),
    ("case=3 --kappa 100 --json", LINE + "case=3 kappa=100 --json"),
    ("case=3 --optimizers gd", LINE + "case=3 optimizers=gd"),
    ("case=3 optimizers=gd adam", LINE + "case=3 optimizers=gd,adam"),
    ("case=3 optimizers=gd, adam", LINE + "case=3 optimizers=gd,adam"),
    ("compare case=3 gd adam", LINE + "compare case=3 optimizers=gd,adam"),
    ("adam case=3", LINE + "optimizers=adam case=3"),
    ("log-uniform", LINE + "spectrum=log-uniform"),
    ("case=3 adam.lr 0.1 optimizers=adam", LINE + "case=3 adam.lr=0.1 optimizers=adam"),
    ("case=3 kappa", "kappa needs a value: write kappa=R (see python -m quadsim help kappa)"),
    ("seed", "seed needs a value: write seed=N (see python -m quadsim help seed)"),
    ("spectra gpt2", LINE + "spectra model=gpt2"),
    ("measure gpt2", LINE + "measure model=gpt2"),
    ("verify 2b", LINE + "verify claim=2b"),
    ("case=1 2", LINE + "cases case=1,2"),
    # commands and flags
    ("swep case=3", LINE + "sweep case=3"),
    ("help swep", "did you mean python -m quadsim help sweep?"),
    ("swep --help", LINE + "sweep --help"),
    ("help kapa", "did you mean python -m quadsim help kappa?"),
    ("help banana", "unknown command or key 'banana': python -m quadsim help lists the commands"),
    ("version", LINE + "--version"),
    ("-help", LINE + "--help"),
    ("case=3 json=true", LINE + "case=3 --json"),
    ("sweep case=3 dry-run", LINE + "sweep case=3 --dry-run"),
    ("sweep case=3 --dryrun", LINE + "sweep case=3 --dry-run"),
    # keys
    ("case=3 optimizer=adam", LINE + "case=3 optimizers=adam"),
    ("case=3 opt=adam", LINE + "case=3 optimizers=adam"),
    ("case=3 max-steps=100", LINE + "case=3 max_steps=100"),
    ("case=3 steps=100", LINE + "case=3 max_steps=100"),
    ("case=3 iterations=100", LINE + "case=3 max_steps=100"),
    ("case=3 κ=100", LINE + "case=3 kappa=100"),
    ("case=3 batch_size=3", LINE + "case=3 batch=3"),
    # settings of optimizers
    ("case=3 lr=0.1", "lr for which optimizer? write gd.lr=0.1, frozen-adam.lr=0.1 or block-gd.lr=0.1"),
    ("compare case=3 learning_rate=0.1", "for which optimizer? write gd.lr=0.1 or adam.lr=0.1, or lrs=0.1 for all"),
    ("case=3 optimizers=adam lr=0.1", f"lr for which optimizer? {LINE}case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 beta2=0.99", LINE + "case=3 optimizers=gd,adam adam.beta2=0.99"),
    ("case=3 optimizers=gd,adam beta2=0.99", LINE + "case=3 optimizers=gd,adam adam.beta2=0.99"),
    ("case=3 optimizers=adam β2=0.99", LINE + "case=3 optimizers=adam adam.beta2=0.99"),
    ("case=3 optimizers=adam adam.beta_2=0.99", LINE + "case=3 optimizers=adam adam.beta2=0.99"),
    ("case=3 optimizers=adam adam.learning_rate=0.1", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 optimizers=adam adam.betas=0.9,0.99", LINE + "case=3 optimizers=adam adam.beta1=0.9 adam.beta2=0.99"),
    ("case=3 'optimizers=adam(lr=0.1)'", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    # values
    ("spectrum=[1,2,3]", LINE + "spectrum=1,2,3"),
    ("spectrum=[1, 2, 3]", LINE + "spectrum=1,2,3"),
    ("spectrum=[[1,2],[3,4]]", LINE + "spectrum=1,2/3,4"),
    ("case=3 optimizers=[gd,adam]", LINE + "case=3 optimizers=gd,adam"),
    ("case=3 'optimizers=gd;adam'", LINE + "case=3 optimizers=gd,adam"),
    ("case=3 'optimizers=\"gd\"'", LINE + "case=3 optimizers=gd"),
    ("case=3 optimizers=sign-gd", LINE + "case=3 optimizers=signgd"),
    ("case=3 kappa=5,000", LINE + "case=3 kappa=5000"),
    ("case=3 kappa=5_000", LINE + "case=3 kappa=5000"),
    ("case=3 kappa=10^4", LINE + "case=3 kappa=1e4"),
    ("case=3 rotation=0,5", LINE + "case=3 rotation=0.5"),
    ("case=3 rotation=50%", LINE + "case=3 rotation=0.5"),
    ("case=3 noise=0.1", LINE + "case=3 noise=gaussian noise.scale=0.1"),
    ("case=3 noise=true", LINE + "case=3 noise=gaussian"),
    ("reproduce fast=yes", LINE + "reproduce fast=true"),
    # ranges and lists
    ("case=3 kappa=1e3..1e6", LINE + "sweep case=3 kappa=1e3:1e6:log25"),
    ("sweep case=3 kappa=1e3..1e6", LINE + "sweep case=3 kappa=1e3:1e6:log25"),
    ("sweep case=3 kappa=1e3:1e6:7", LINE + "sweep case=3 kappa=1e3:1e6:log7"),
    ("sweep case=3 heterogeneity=0..1", LINE + "sweep case=3 heterogeneity=0:1:lin21"),
    ("sweep case=3 'kappa=np.logspace(1,6,25)'", LINE + "sweep case=3 kappa=1e1:1e6:log25"),
    ("sweep case=3 'seed=range(30)'", LINE + "sweep case=3 seed=0..29"),
    ("case=3 kappa=10,100", LINE + "sweep case=3 kappa=10,100"),
    ("case=3 kappa=10,100 out=there", LINE + "sweep case=3 kappa=10,100"),
    ("cases kappa=10,100", LINE + "sweep"),
    ("case=3 tol=1e-6,1e-8", LINE + "sweep case=3 tol=1e-6,1e-8"),
    ("case=3 optimizers=adam adam.lr=1e-3,1e-2", LINE + "sweep case=3 optimizers=adam adam.lr=1e-3,1e-2"),
    ("case=3,4", LINE + "cases case=3,4"),
    # seeds
    ("case=3 seed=0..9", LINE + "cases case=3 seed=0..9"),
    ("case=3 heterogeneity=0.5 seed=0..9", LINE + "sweep case=3 heterogeneity=0.5 seed=0..9"),
    ("case=3 seeds=0:10", LINE + "cases case=3 seed=0..9"),
    ("cases seeds=0:10", LINE + "cases seed=0..9"),
    ("cases seed=0:10", LINE + "cases seed=0..9"),
    ("cases seed=0-9", LINE + "cases seed=0..9"),
    ("cases seeds=30", LINE + "cases seed=0..29"),
    ("case=3 seeds=30", LINE + "cases case=3 seed=0..29"),
    ("verify seed=0..9", "verify takes one seed: " + LINE + "verify seed=0"),
    *((f"{name} seeds=30", "seed=0..29") for name in ("run case=3", "cases", "compare", "tune", "sweep")),
    *((f"{name} seeds=30", "seed=0") for name in ("verify", "spectra model=gpt2", "measure model=mlp")),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_answered(command, tmp_path, line, message):
    code, out, err = command(*shlex.split(line))
    assert (code, out) == (2, ""), err
    assert message in err
    assert err.count("\n") == 1
    assert len(err) <= 201
    assert list(tmp_path.iterdir()) == []


def _parsed(argv):
    read = arguments.read(argv, help_text.commands())
    if read.flags & {"--help", "--version"}:
        return
    module = importlib.import_module(f"quadsim.cli.commands.{read.command}")
    assert not read.names or getattr(module, "NAMES", False)
    arguments.check_keys(read, module.KEYS, settings=getattr(module, "SETTINGS", False))
    if getattr(module, "PARSE", True):
        arguments.parse(read, module.KEYS)


SUGGESTED = [line for line, message in MISTAKES if LINE in message]


@pytest.mark.parametrize("line", SUGGESTED)
def test_the_answer_is_a_line_that_is_accepted_and_has_no_further_answer(line):
    answer = mistakes.answer(shlex.split(line))
    suggested = shlex.split(answer.partition(LINE)[2])
    _parsed(suggested)
    assert mistakes.answer(suggested) is None


VALID = [
    "case=3",
    "--case=3",
    "case=4 kappa=1e8 optimizers=gd,heavy-ball,nesterov tol=1e-8",
    "cases seed=0..99",
    "case=3 optimizers=GD,Adam adam.lr=0.01 adam.beta2=0.99 max_steps=1e6 tol=0",
    "spectrum=1,2,3/99,100,101",
    "spectrum=log-uniform blocks=4 block_size=30 kappa=1e4",
    "case=1 network=vit-small blocks=patches,head sampling=mass",
    "compare case=3,4 batch=3 optimizers=sgd,signum,adam seed=0..29 lrs=1e-4:1:log9 adam.beta2=0.9,0.99",
    "tune case=3 optimizers=adam tuning_seed=30..39 adam.lr=1e-4:1:log9",
    "sweep case=3,4 kappa=10:1e6:log25 heterogeneity=0:1:lin21 seed=0..29 store=sweep.db --dry-run",
    "sweep spectrum=1,2/3;4,5 batch=none,3 case=none",
    "plot sweep.db x=kappa y=loss kappa=10,100 adam.beta2=0.99 title=[x]",
    "bench sizes=4x30 lanes=1,64 peers=numpy,torch",
    "case=3 noise=gaussian+labels noise.scale=0.1/0.2 out=a-b",
    "case=3 start=1e-3 schedule=step every=100 drop=0.5",
    "list claims --json",
    "merge a.db b.db store=all.db",
    "reproduce zhang_four_cases fast=true",
    "verify claim=2b,5 draws=100000 seed=7",
]


@pytest.mark.parametrize("line", VALID)
def test_a_valid_line_has_no_answer(line):
    """Negative control: `answer` sees only refused lines, but what is valid in them is left alone."""
    assert mistakes.answer(shlex.split(line)) is None


@pytest.mark.parametrize("line", ["case=3 out=/dev/null/x", "case=3 tol=-1", "case=3 kappa=0.5", "cases case=3,3"])
def test_other_errors_are_reported_themselves(command, line):
    assert mistakes.answer(line.split()) is None
    assert command(*line.split())[0] == 2


@pytest.mark.parametrize(
    "word",
    ["case " * 1000, "(" * 500, "[" * 500 + "]" * 499, "a=[" * 300, "1e" * 400, "0" * 900 + "..", "kappa=" + "1," * 900,
     "seeds=" + "9" * 999, "kappa=range(1e400)", "seed=range(1e400)", "seeds=1e400:2", "kappa=np.logspace(1e9,2,3)",
     "optimizers=adam((((lr=1)", "adam.betas=,", ".=", "-.-=", "=", "==", "-", "--", "\x00", "\ud800", "κ", "β.",
     "adam.=1", "seed=-", "seed=1:2:3", "kappa=1..1e400", "noise=-1", "noise=nan", "case=1_", "kappa=1e999:1e9999"],
)  # fmt: skip
def test_no_word_makes_it_fail(word):
    for argv in ([word], ["case=3", word], ["sweep", word, word], [word, "3"]):
        answer = mistakes.answer(argv)
        assert answer is None or (answer.isprintable() and len(InputError(answer).args[0]) <= 191)


def test_synonyms_do_not_hide_names():
    """No synonym is the name of a key or a setting; each stands for one."""
    keys = {
        key for name in help_text.commands() for key in importlib.import_module(f"quadsim.cli.commands.{name}").KEYS
    }
    settings = {setting for name in names.optimizers() for setting in _discovery.settings(name)}
    assert not {synonyms.plain(name) for name in keys | settings} & set(synonyms.SYNONYMS)
    assert set(synonyms.SYNONYMS.values()) <= keys | settings | {"seeds"}
