"""Answers to frequent mistakes on the command line: what is wrong, and the line to type instead.

`answer` is called after a line was refused. Rules rewrite it step by step: words to key=value, keys to the names of the
table, values to the syntax of the command. They change only what the command would refuse. The result is shown as the
line to write if the command accepts its keys and values; otherwise its changed words are.
"""

from __future__ import annotations

import difflib
import importlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from quadsim import _discovery
from quadsim import _validation as checks
from quadsim._validation import MAX_MESSAGE_LENGTH, PREFIX, InputError
from quadsim.cli import arguments, help_text, mistaken_values, names
from quadsim.keys import KEYS, RENAMED, Key

MAX_CHARACTERS = 2000  # of a line that is examined
MAX_ANSWER = MAX_MESSAGE_LENGTH - len(PREFIX)
FLAGS = ("--help", "--json", "--version")
SYNONYMS = {  # names that other programs use, without dashes and underscores
    **dict.fromkeys(("learningrate", "stepsize", "eta", "η"), "lr"),
    **dict.fromkeys(("niter", "iters", "iterations", "maxiter", "nsteps", "numsteps", "epochs", "steps"), "max_steps"),
    **dict.fromkeys(("conditionnumber", "condition", "cond", "κ"), "kappa"),
    **dict.fromkeys(("eigenvalues", "eigs", "eigvals", "law"), "spectrum"),
    **dict.fromkeys(("tolerance", "rtol", "gtol"), "tol"),
    **dict.fromkeys(("opt", "opts", "methods", "method"), "optimizers"),
    **dict.fromkeys(("output", "outdir", "folder", "dir"), "out"),
    **dict.fromkeys(("randomseed", "rngseed", "randomstate"), "seed"),
    **dict.fromkeys(("nseeds", "numseeds"), "seeds"),
    **dict.fromkeys(("net", "networkname"), "network"),
    "batchsize": "batch",
    "database": "store",
    "db": "store",
    "epsilon": "eps",
    "ε": "eps",
    "wd": "weight_decay",
    "μ": "momentum",
}
_GREEK = str.maketrans({"β": "beta", "α": "alpha", "τ": "tau"})


def answer(argv: Sequence[str]) -> str | None:
    """The sentence about the first mistakes that are recognised in a refused line; None if there are none."""
    if sum(map(len, argv)) > MAX_CHARACTERS or not all(word.isprintable() for word in argv):
        return None
    try:
        draft = Draft(argv)
        for rule in (
            _join_words,
            _name_command,
            _rename_keys,
            _name_optimizers,
            mistaken_values.correct,
            _change_command,
        ):
            rule(draft)
        return draft.sentence()
    except InputError as error:  # a question that has no single answer
        return str(error)


class Draft:
    """A line while it is corrected: its command, its words, and why they were changed."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.given = list(argv)
        self.words = list(argv)
        bare = [word for word in argv if "=" not in word and not word.startswith("-") and word != "help"]
        self.command = bare[0] if bare and bare[0] in help_text.commands() else "run"
        self.named = bool(bare) and bare[0] == self.command
        if self.named:
            self.words.remove(self.command)
        self.reasons: list[str] = []
        self.wanted = ""  # the command that takes several values, if this one does not

    @property
    def module(self) -> Any:
        return importlib.import_module(f"quadsim.cli.commands.{self.command}")

    @property
    def keys(self) -> Mapping[str, Key]:
        return self.module.KEYS

    @property
    def takes_settings(self) -> bool:
        return getattr(self.module, "SETTINGS", False)

    def text(self, key: str) -> str:
        """The text of a key; empty if it is not given."""
        return next((word.partition("=")[2] for word in self.words if word.partition("=")[0] == key), "")

    def replace(self, word: str, *new: str, reason: str) -> None:
        """Put other words in place of one."""
        place = self.words.index(word)
        self.words[place : place + 1] = new
        self.because(reason)

    def because(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def optimizers(self) -> list[str]:
        """The optimizers of the line, by default those of the command."""
        default = self.keys["optimizers"].default if "optimizers" in self.keys else ""
        return (self.text("optimizers") or default).lower().replace("_", "-").split(",")

    def line(self) -> list[str]:
        return [self.command] * (self.named or self.command != "run") + self.words

    def sentence(self) -> str | None:
        """Why, and what to write: the whole line if the command accepts it and there is room for it."""
        if not self.reasons:
            return None
        changed = [word for word in self.line() if word not in self.given]
        texts = [shlex.join(changed)]
        if _accepted(self.line()):
            texts.insert(0, shlex.join(["python", "-m", "quadsim", *self.line()]))
        for why in ("; ".join(self.reasons), self.reasons[0]):
            for text in filter(None, texts):
                if len(sentence := f"{why}{'' if why.endswith('?') else ':'} write {text}") <= MAX_ANSWER:
                    return sentence
        return None


def _accepted(line: Sequence[str]) -> bool:
    """Whether a line is read without error, up to its optimizers and the values of its axes."""
    try:
        read = arguments.read(line, help_text.commands())
        if read.command not in help_text.commands():
            return False
        module = importlib.import_module(f"quadsim.cli.commands.{read.command}")
        if read.names and not getattr(module, "NAMES", False):
            return False
        arguments.check_keys(read, module.KEYS, settings=getattr(module, "SETTINGS", False))
        if getattr(module, "PARSE", True):
            arguments.parse(read, module.KEYS)
    except InputError:
        return False
    return True


def plain(word: str) -> str:
    """A name for comparison: in lower case, without dashes and underscores, in Latin letters."""
    return re.sub(r"[-_\s]", "", word.lower()).translate(_GREEK)


# ---- words that are not key=value


def _name_command(draft: Draft) -> None:
    """`swep case=3`: the command with a similar name."""
    word = next((word for word in draft.words if "=" not in word and not word.startswith("-")), "help")
    if draft.named or word == "help" or "help" in draft.words or _known_key(draft, word):
        return
    if close := difflib.get_close_matches(word.lower(), help_text.commands(), n=1, cutoff=0.75):
        draft.words.remove(word)
        draft.command, draft.named = close[0], True
        draft.because(f"unknown command {checks.shown(word)}")


def _join_words(draft: Draft) -> None:
    """Make key=value of `case 3`, `--case 3`, `case3`, `case = 3`, `optimizers=gd adam`, `spectrum=[1, 2]`, `gd`."""
    why = "keys are written key=value"
    words, draft.words = draft.words, []
    while words:
        word = words.pop(0)
        key = _known_key(draft, word.rstrip(":="))
        if "=" in word.rstrip("=") and not word.startswith("="):
            while words and "=" not in words[0] and _unfinished(word):
                word += words.pop(0)
                draft.because("a list is written without spaces")
            draft.words.append(word)
        elif key and words and not _is_flag(words[0]) and (word[-1] == "=" or "=" not in words[0].strip("=")):
            value = words.pop(0).lstrip("=")
            value = value or (words.pop(0) if words else "")
            draft.words.append(f"{key}={value}")
            draft.because(why)
        elif key and word not in _positional(draft):
            _needs_value(draft, key)
        elif word != "help" and (flag := _meant_flag(draft, word)):
            draft.words.append(flag)
            if flag != word:
                draft.because(f"{flag} is a flag")
        elif not _add_value(draft, word):
            draft.words.append(word)
        else:
            draft.because(why)


def _unfinished(word: str) -> bool:
    """Whether the list of a word continues in the next one."""
    return word.endswith(",") or sum(map(word.count, "[(")) > sum(map(word.count, "])"))


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.match(r"-[0-9.]", word)


def _needs_value(draft: Draft, key: str) -> None:
    entry = draft.keys.get(key)
    shape = help_text.value_shape(entry) if entry else "VALUE"
    raise InputError(f"{key} needs a value: write {key}={shape} (see {help_text.PROGRAM} help {key})")


def _known_key(draft: Draft, word: str) -> str:
    """The key that a word means; empty if it is none."""
    if not word or "=" in word:
        return ""
    word = word.lstrip("-")
    if "." in word and draft.takes_settings:
        owner, _, setting = word.partition(".")
        return word if plain(owner) in map(plain, names.optimizers()) and setting else ""
    found = _canonical(word, (*draft.keys, *_settings(draft), "seeds"))
    return found or (_canonical(word, KEYS) if draft.command == "run" else "")


def _settings(draft: Draft) -> list[str]:
    """The settings that its optimizers can have."""
    if not draft.takes_settings:
        return []
    return list(dict.fromkeys(setting for name in names.optimizers() for setting in _discovery.settings(name)))


def _canonical(word: str, known: Any) -> str:
    """The known name that a word means: other letters and dashes, singular or plural, a synonym."""
    by_name = {plain(name): name for name in known}
    asked = plain(word)
    for name in (asked, plain(SYNONYMS.get(asked, "")), f"{asked}s", asked[:-1] if asked.endswith("s") else ""):
        if name in by_name:
            return by_name[name]
    return ""


def _positional(draft: Draft) -> tuple[str, ...]:
    """The words that a command takes beside keys, as far as they have names."""
    return tuple(names.LISTS) if draft.command == "list" else ()


def _meant_flag(draft: Draft, word: str) -> str:
    flags = (*FLAGS, *getattr(draft.module, "FLAGS", ()))
    return next((flag for flag in flags if plain(flag) == plain(word)), "")


def _add_value(draft: Draft, word: str) -> bool:
    """Add a value without a key to the line, if it is clear which key it belongs to."""
    glued = re.fullmatch(r"-*([^\W\d]+)[:_-]?([0-9][^=]*)", word)
    if glued and (key := _canonical(glued[1], draft.keys)):
        draft.words.append(f"{key}={glued[2]}")
        return True
    for key, entry in draft.keys.items():
        allowed = entry.words if entry.kind in ("case", "spectrum") else ()
        if entry.names and not allowed:
            allowed = getattr(names, entry.names)()
        items = word.split(",")
        if not allowed or not all(item and plain(item) in map(plain, allowed) for item in items):
            continue
        given = draft.text(key)
        lists = key == "optimizers" or entry.kind == "case"
        if given and lists:
            place = next(k for k, known in enumerate(draft.words) if known.startswith(f"{key}="))
            draft.words[place] = f"{key}={given.rstrip(',')},{word}"
        elif not given and not (key == "spectrum" and draft.text("case")) and key != "reference":
            draft.words.append(f"{key}={word}")
        else:
            continue
        return True
    return False


# ---- keys


def _rename_keys(draft: Draft) -> None:
    """The names of the table for `optimizer=`, `max-steps=`, `κ=`, `adam.beta_2=`; --json for `json=true`."""
    for word in list(draft.words):
        key, equals, value = word.partition("=")
        shown = key.lstrip("-")
        if not equals or shown in draft.keys or not shown:
            continue
        if flag := _meant_flag(draft, shown):
            draft.replace(word, flag, reason=f"{flag} is a flag")
            continue
        if "." in shown and draft.takes_settings:
            _rename_setting(draft, word, shown, value)
            continue
        if shown.lower() in RENAMED and shown.lower() not in SYNONYMS:
            continue  # its value changes as well
        if new := _canonical(shown, draft.keys):
            draft.replace(word, f"{new}={value}", reason=f"the key is {new}, not {shown}")
        elif "seed" in draft.keys and _canonical(shown, ["seeds"]):  # answered by `mistaken_values`
            draft.replace(word, f"seeds={value}", reason="")


def _rename_setting(draft: Draft, word: str, key: str, value: str) -> None:
    owner, _, setting = key.partition(".")
    owner = {plain(name): name for name in names.optimizers()}.get(plain(owner), owner)
    known = _discovery.settings(owner)
    if plain(setting) == "betas" and {"beta1", "beta2"} <= set(known):
        parts = value.strip("[]()").split(",")
        if len(parts) == 2 and all(map(str.strip, parts)):
            new = [f"{owner}.beta{number}={part.strip()}" for number, part in enumerate(parts, start=1)]
            draft.replace(word, *new, reason=f"{owner} has beta1 and beta2")
    elif known and setting.lower() not in map(str.lower, known) and (new_name := _canonical(setting, known)):
        draft.replace(word, f"{owner}.{new_name}={value}", reason=f"the setting is {owner}.{new_name}, not {key}")


def _name_optimizers(draft: Draft) -> None:
    """`lr=0.1`: for which optimizer?"""
    if not draft.takes_settings:
        return
    for word in list(draft.words):
        key, equals, value = word.partition("=")
        setting = _canonical(key.lstrip("-"), _settings(draft)) if equals and "." not in key else ""
        if not setting or key.lstrip("-") in draft.keys:
            continue
        used = [name for name in draft.optimizers() if setting in _discovery.settings(name)]
        if len(used) == 1:
            draft.replace(word, f"{used[0]}.{setting}={value}", reason=f"{key} for which optimizer?")
        elif used:
            every = f", or lrs={value} for all" if setting == "lr" and "lrs" in draft.keys else ""
            choices = [f"{name}.{setting}={value}" for name in used]
            for count in range(len(choices), 0, -1):
                listed = f"{', '.join(choices[: count - 1])} or {choices[count - 1]}" if count > 1 else choices[0]
                sentence = f"{key} for which optimizer? write {listed}{every}"
                if len(sentence) <= MAX_ANSWER:
                    raise InputError(sentence)
        else:
            _add_optimizer(draft, word, setting, value)


def _add_optimizer(draft: Draft, word: str, setting: str, value: str) -> None:
    """No optimizer of the line has the setting: name one that has."""
    owners = [name for name in names.optimizers() if setting in _discovery.settings(name)]
    owner = "adam" if "adam" in owners else owners[0]
    given = draft.text("optimizers")
    if any(name not in names.optimizers() for name in draft.optimizers()):
        return  # of a user's rule
    place = [known for known in draft.words if known.startswith("optimizers=")]
    listed = f"optimizers={given or 'gd'},{owner}"
    used = ", ".join(draft.optimizers())
    draft.replace(word, f"{owner}.{setting}={value}", reason=f"{used} have no {setting}, {owner} has")
    if place:
        draft.words[draft.words.index(place[0])] = listed
    else:
        draft.words.insert(draft.words.index(f"{owner}.{setting}={value}"), listed)


# ---- the command


def _change_command(draft: Draft) -> None:
    """Several values where the command takes one: `cases` or `sweep` take them."""
    if not draft.wanted:
        return
    for command in ("cases", "sweep") if draft.wanted == "seed" else ("sweep",):
        if command == draft.command:
            continue
        words = [word for word in draft.words if not (command == "sweep" and word.startswith("out="))]
        if _accepted([command, *words]):
            draft.command, draft.words = command, words
            return
    draft.command, draft.named = "sweep", True
