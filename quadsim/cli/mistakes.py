"""Answers to frequent mistakes on the command line: what is wrong, and the line to type instead.

`answer` is called after a line was refused. Rules rewrite it step by step: words to key=value, keys to the names of the
table, values to the syntax of the command. They change only what the command would refuse. The result is shown as the
line to write if the command accepts its keys and values; otherwise its changed words are.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from quadsim import _discovery
from quadsim._validation import MAX_MESSAGE_LENGTH, PREFIX, InputError
from quadsim.cli import arguments, help_text, mistaken_keys, mistaken_values, mistaken_words, names, synonyms
from quadsim.keys import Key

MAX_CHARACTERS = 2000  # of a line that is examined
START = ("$", "python", "python3", "-m", "quadsim")  # of a line that was copied
NEED_PROBLEM = ("run", "compare", "tune", "sweep")  # commands that take case= or spectrum=
MAX_ANSWER = MAX_MESSAGE_LENGTH - len(PREFIX)


def answer(argv: Sequence[str]) -> str | None:
    """The sentence about the first mistakes that are recognised in a refused line; None if there are none."""
    if "help" in argv or sum(map(len, argv)) > MAX_CHARACTERS or not all(word.isprintable() for word in argv):
        return None
    try:
        draft = Draft(argv)
        for rule in (
            mistaken_words.split,
            mistaken_words.join,
            mistaken_words.name_command,
            mistaken_keys.rename,
            mistaken_keys.name_optimizers,
            mistaken_keys.add_optimizers,
            mistaken_values.correct,
            _change_command,
            _add_problem,
        ):
            rule(draft)
        return draft.sentence()
    except InputError as error:  # a question that has no single answer
        return str(error)


class Draft:
    """A line while it is corrected: its command, its words, and why they were changed."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.given = list(argv)
        self.reasons: list[str] = []
        self.words = list(argv)
        while self.words and self.words[0] in START:
            self.words.pop(0)
            self.because("the program is named once")
        bare = [word for word in self.words if "=" not in word and not word.startswith("-") and word != "help"]
        self.command = bare[0] if bare and bare[0] in help_text.commands() else "run"
        self.named = bool(bare) and bare[0] == self.command
        if self.named:
            self.words.remove(self.command)
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

    def key(self, word: str, *others: str) -> str:
        """The key of the command, or one of the others, that a word means; empty if it is none."""
        return synonyms.canonical(word, (*self.keys, *others), synonyms.OF_COMMANDS.get(self.command, {}))

    def settings(self) -> list[str]:
        """The settings that its optimizers can have."""
        if not self.takes_settings:
            return []
        return list(dict.fromkeys(setting for name in names.optimizers() for setting in _discovery.settings(name)))

    def meant_flag(self, word: str) -> str:
        """The flag that a word means; empty if it is none."""
        known = (*arguments.FLAGS, *getattr(self.module, "FLAGS", ()))
        letter = word.lstrip("-").lower() if word.startswith("-") or word in ("h", "?") else ""
        short = synonyms.FLAG_SYNONYMS.get(letter, "")
        return next((flag for flag in known if flag == short or synonyms.plain(flag) == synonyms.plain(word)), "")

    def text(self, key: str) -> str:
        """The text of a key; empty if it is not given."""
        return next((word.partition("=")[2] for word in self.words if word.partition("=")[0] == key), "")

    def replace(self, word: str, *new: str, reason: str) -> None:
        """Put other words in place of one."""
        place = self.words.index(word)
        self.words[place : place + 1] = new
        self.because(reason)

    def because(self, reason: str) -> None:
        if reason and reason not in self.reasons:
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
        arguments.check(read, module)
        arguments.check_keys(read, module.KEYS, settings=getattr(module, "SETTINGS", False))  # if PARSE is False too
    except InputError:
        return False
    return True


def _change_command(draft: Draft) -> None:
    """Several values where the command takes one: `cases` or `sweep` take them."""
    if not draft.wanted:
        return
    for command in ("cases", "sweep") if draft.wanted == "seed" else ("sweep",):
        if command == draft.command:
            continue
        words = [word for word in draft.words if not (command == "sweep" and word.startswith("out="))]
        if draft.command == "cases" and not draft.text("case"):
            words.insert(0, "case=1..4")  # its default
        if _accepted([command, *words]):
            draft.command, draft.words = command, words
            return
    draft.command, draft.named = "sweep", True


def _add_problem(draft: Draft) -> None:
    """A case for a line that would be refused next because it has no problem."""
    if draft.reasons and draft.command in NEED_PROBLEM and not (draft.text("case") or draft.text("spectrum")):
        if any(word.startswith("-") and "=" not in word for word in draft.words):
            return  # a flag such as --help
        draft.words.insert(0, "case=1" if draft.text("network") else "case=3")
