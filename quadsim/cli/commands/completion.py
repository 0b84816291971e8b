"""Print the script that completes keys, values and names at a TAB in bash, zsh or fish.

  eval "$(python -m quadsim completion bash)"                                   in ~/.bashrc
  eval "$(python -m quadsim completion zsh)"                                    in ~/.zshrc, after compinit
  python -m quadsim completion fish > ~/.config/fish/completions/quadsim.fish

It completes `quadsim` and `python -m quadsim`.
"""

from __future__ import annotations

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.cli import completion
from quadsim.cli.arguments import CommandLine
from quadsim.cli.outputs import to_json
from quadsim.keys import Key

KEYS: dict[str, Key] = {}
NAMES = True


def main(line: CommandLine) -> None:
    if len(line.names) != 1:
        raise InputError("which shell? write for example completion bash, or zsh, or fish")
    text = completion.script(checks.choice("shell", line.names[0], completion.SHELLS))
    print(to_json({"shell": line.names[0], "script": text}) if line.json else text, end="\n" if line.json else "")
