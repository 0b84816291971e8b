"""Further mistakes on the command line, and that each answer is complete and is itself accepted."""

import shlex

import pytest

from quadsim.cli import mistakes

LINE = "write python -m quadsim "
MISTAKES = [  # a line in a shell's syntax, and what the answer ends with, or what it contains
    # words
    ("case=3,kappa=100", LINE + "case=3 kappa=100"),
    ("'case=3 kappa=100'", LINE + "case=3 kappa=100"),
    ("python -m quadsim case 3", LINE + "case=3"),
    ("cases 1-4", LINE + "cases case=1..4"),
    ("spectrum=1 2 3", LINE + "spectrum=1,2,3"),
    ("sweep case 3 kappa 10 100 1000", LINE + "sweep case=3 kappa=10,100,1000"),
    ("gd", LINE + "case=3 optimizers=gd"),
    ("gpt2", LINE + "case=1 network=gpt2"),
    ("-c 3", "keys are written key=value: write case=3"),
    ("-o there case=3", LINE + "out=there case=3"),
    ("claims", LINE + "list claims"),
    ("networks", LINE + "list networks"),
    ("optimizers", LINE + "list optimizers"),
    ("verify 5", LINE + "verify claim=5"),
    ("verify all", LINE + "verify"),
    ("reproduce --fast", LINE + "reproduce fast=true"),
    ("case=3 --tune", LINE + "case=3 tune=true"),
    ("report mine/", LINE + "report figures=mine/"),
    ("compare case=3 --latex", LINE + "compare case=3 export=latex"),
    ("completion shell=bash", LINE + "completion bash"),
    ("-v", LINE + "--version"),
    ("-?", LINE + "--help"),
    ("sweep case=3 -n", LINE + "sweep case=3 --dry-run"),
    # keys
    ("case=3 kappa:=100", "keys are written key=value: " + LINE + "case=3 kappa=100"),
    ("case=1 model=gpt2", LINE + "case=1 network=gpt2"),
    ("spectra network=gpt2", LINE + "spectra model=gpt2"),
    ("report folder=mine", LINE + "report figures=mine"),
    ("merge a.db b.db out=c.db", LINE + "merge a.db b.db store=c.db"),
    ("case=3 n_seeds=30", "quadsim: the key is seed; run takes one seed"),
    ("cases num-seeds=30", "quadsim: the key is seed: " + LINE + "cases seed=0..29"),
    ("case=3 noise_scale=0.1", LINE + "case=3 noise.scale=0.1 noise=gaussian"),
    ("list seeds=3", "unknown key 'seeds': allowed are rules"),
    ("completion seeds=3", "completion takes no keys, got 'seeds'"),
    # settings of optimizers
    ("case=3 optimizers=adam adam_lr=0.1", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 optimizers=adam adam:lr=0.1", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 optimizers=adam lr.adam=0.1", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 optimizers=adam adam.lr:0.1", LINE + "case=3 optimizers=adam adam.lr=0.1"),
    ("case=3 betas=0.9,0.99", LINE + "case=3 optimizers=gd,adam adam.beta1=0.9 adam.beta2=0.99"),
    ("case=3 optimizers=adam 'betas=(0.9,0.99)'", LINE + "case=3 optimizers=adam adam.beta1=0.9 adam.beta2=0.99"),
    ("case=3 adam.beta2=0.99", LINE + "case=3 optimizers=gd,adam adam.beta2=0.99"),
    ("case=3 optimizers=adam wd=0.1", "adam has no weight_decay, adamw has: "),
    ("case=3 --lr=0.1", "quadsim: lr for which optimizer?"),
    ("case=3 optimizers=gd gd.lr=best", "leave gd.lr=best out for the default: " + LINE + "case=3 optimizers=gd"),
    # values
    ("case=3 optimizers=adam,gd,", LINE + "case=3 optimizers=adam,gd"),
    ("case=3 optimizers=gd/adam", LINE + "case=3 optimizers=gd,adam"),
    ("case=1 network=GPT-2", LINE + "case=1 network=gpt2"),
    ("spectrum=log_uniform", LINE + "spectrum=log-uniform"),
    ("'spectrum=1,2;3,4'", LINE + "spectrum=1,2/3,4"),
    ("spectrum=1:100:log3", LINE + "spectrum=1,10,100"),
    ("spectrum=1..100", "write spectrum=linear blocks=1 block_size=100 kappa=100"),
    ("spectrum=eigs.csv", "write case=1 network=eigs.csv"),
    ("case=all", LINE + "cases case=1..4"),
    ("case=3 max_steps=10k", LINE + "case=3 max_steps=10e3"),
    ("case=3 'noise=gaussian(0.1)'", LINE + "case=3 noise=gaussian noise.scale=0.1"),
    ("case=3 noise=none", LINE + "case=3"),
    ("case=3 batch=full", LINE + "case=3"),
    # ranges
    ("kappa=1e3..1e6", LINE + "sweep case=3 kappa=1e3:1e6:log25"),
    ("cases kappa=10,100", LINE + "sweep case=1..4 kappa=10,100"),
    ("sweep case=3 kappa=10:1e6:log", LINE + "sweep case=3 kappa=10:1e6:log25"),
    ("sweep case=3 kappa=10:1e6:25log", LINE + "sweep case=3 kappa=10:1e6:log25"),
    ("sweep case=3 kappa=1e6..1e3", LINE + "sweep case=3 kappa=1e6:1e3:log25"),
    ("sweep case=3 'kappa=np.geomspace(10,1e6,num=7)'", LINE + "sweep case=3 kappa=10:1e6:log7"),
    ("sweep case=3 'kappa=10;100'", LINE + "sweep case=3 kappa=10,100"),
    ("sweep case=3 seed=0..2,20", LINE + "sweep case=3 seed=0,1,2,20"),
    ("sweep case=3 seed=1..", "seed=1.. has one end: write for example seed=0..9"),
    ("cases seeds=3.0", LINE + "cases seed=0..2"),
    ("cases seeds=five", "the key is seed: write seed=0..9"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_answered(command, tmp_path, line, message):
    code, out, err = command(*shlex.split(line))
    assert (code, out) == (2, ""), err
    assert message in err
    if message.startswith(LINE):
        assert err.rstrip("\n").endswith(message)
    assert err.startswith("quadsim: ")
    assert err.count("\n") == 1
    assert len(err) <= 201
    assert list(tmp_path.iterdir()) == []


SUGGESTED = [line for line, message in MISTAKES if LINE in message]


@pytest.mark.parametrize("line", SUGGESTED)
def test_the_answer_is_accepted_and_has_no_further_answer(line):
    suggested = shlex.split(mistakes.answer(shlex.split(line)).partition(LINE)[2])
    assert mistakes._accepted(suggested)
    assert mistakes.answer(suggested) is None


def test_a_line_with_an_unknown_flag_is_not_accepted():
    """Negative control of the two checks: what the command refuses is not accepted."""
    assert mistakes._accepted(["case=3"])
    for line in (["-c", "case=3"], ["case=3", "--dry-run"], ["case=3", "lr=1"], ["list", "seed=3"], ["no"]):
        assert not mistakes._accepted(line)


KEYS_OF_NO_COMMAND = ("seeds", "size", "lr", "n", "zz", "shell", "betas", "n_seeds", "κ", "x.y", "help", ":", "-")


@pytest.mark.parametrize("word", KEYS_OF_NO_COMMAND)
def test_every_message_is_complete(command, word):
    """No message has an empty reason, an empty list or nothing to write, whichever command is asked."""
    from quadsim.cli import help_text

    for name in help_text.commands():
        for line in ([name, f"{word}=3"], [name, f"--{word}=3"], [name, f"{word}=a,b"]):
            code, _, err = command(*line)
            if code != 2:
                assert "help" in line[1], line
                continue
            message = err.removeprefix("quadsim: ").rstrip("\n")
            assert message[:1] not in ("", ":", ";", " "), (line, err)
            assert not message.endswith((":", ": ", "allowed are", " write", " are")), (line, err)
            assert not any(gap in message for gap in ("; :", ": ;", ": :")), (line, err)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("adam", "adam.beta2=V"),
        ("adam.lr", "adam.beta2=V"),
        ("heavy_ball", "heavy-ball.momentum=V"),
        ("lr", "lr: a setting of optimizers"),
        ("beta2", "adam.beta2=V"),
        ("case=3", "case=N"),
        ("kappa=10", "map the eigenvalues"),
    ],
)
def test_help_knows_optimizers_settings_and_keys(command, words, shown):
    code, out, err = command("help", words)
    assert (code, err) == (0, "")
    assert shown in out
    assert all(len(line) <= 120 for line in out.splitlines())
