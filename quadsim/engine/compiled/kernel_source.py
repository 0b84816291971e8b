"""The text of a kernel: four templates with an optimizer's rule inserted.

The templates are `kernel_parameters`, `simd`, `random` and `kernel_template`, joined in this order; the rule takes the
place of `update` and `once_per_step`. The text imports nothing from quadsim, since numba's cache does not notice
changes of imported functions. So the text, and its hash, cover all code of a kernel.
"""

from __future__ import annotations

import ast
import functools
import itertools
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from quadsim._source import parse
from quadsim._validation import InputError
from quadsim.optimizers import Optimizer, rule_source
from quadsim.optimizers.rule_source import parameter_names

TEMPLATES = ("kernel_parameters", "simd", "random", "kernel_template")
RULE_FUNCTIONS = ("update", "once_per_step")  # of the template, replaced by those of the optimizer
RULE_ARGUMENTS = ("g", "w", "t", "random", "step")  # of a rule, besides its state, shared_state and settings
WIDTHS = (1, 8, 32)  # lanes of a kernel


class Form(NamedTuple):
    """What a kernel is compiled for, besides the optimizer."""

    width: int  # number of lanes
    noisy: bool = False  # gradients may have noise
    shared_settings: bool = True  # lanes have the same settings except their learning rates: less memory is read


# With a single lane settings are always shared.
FORMS = [Form(*form) for form in itertools.product(WIDTHS, (False, True), (True, False)) if form[0] > 1 or form[2]]


def kernel_text(optimizer: type[Optimizer], width: int, noisy: bool = False, shared_settings: bool = True) -> str:
    """The text of a kernel: the templates with the rule of this optimizer. The other arguments are those of `Form`."""
    key = optimizer, Form(width, noisy, shared_settings)
    text, rule = _texts.get(key, ("", None))
    if rule is None or not rule.is_current():
        text, rule = _texts[key] = _kernel_text(*key)
    return text


_texts: dict[tuple[type[Optimizer], Form], tuple[str, rule_source.Standalone]] = {}


def _kernel_text(optimizer: type[Optimizer], form: Form) -> tuple[str, rule_source.Standalone]:
    rule = rule_source.Standalone(bounds=optimizer.user_defined and optimizer.scope != "coordinate")
    rule.add(optimizer.rule, "rule")
    if optimizer.once_per_step is not None:
        rule.add(optimizer.once_per_step, "rule_once_per_step")
    update = _update_coordinates(optimizer, form) if optimizer.scope == "coordinate" else _update_groups(optimizer)
    parameters = ("WIDTH", form.width), ("NOISY", form.noisy), ("RANDOM", "random" in requested_names(optimizer))
    templates = tuple(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in TEMPLATES)
    head = join_templates(templates, parameters)
    return "\n\n".join([head, rule.text, update, _once_per_step(optimizer, form)]), rule


@functools.cache
def join_templates(templates: tuple[str, ...], parameters: tuple[tuple[str, int], ...]) -> str:
    """The templates as one text, with these parameters; without docstrings, imports of each other and the rule.

    Raises unless each parameter and each function of the rule occurs exactly once.
    """
    values, text, replaced = dict.fromkeys(RULE_FUNCTIONS) | dict(parameters), "", []
    for template in templates:
        lines = template.splitlines(keepends=True)
        for node in reversed(parse(template).body):  # from the end, so that line numbers stay valid
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.FunctionDef(name=name) if name in values:
                    replaced.append(name)
                    replacement = [] if name in RULE_FUNCTIONS else [f"{name} = {values[name]!r}\n"]
                case ast.ImportFrom(module=str(module)) if module.startswith("quadsim."):
                    replacement = []
                case ast.Expr(value=ast.Constant()):
                    replacement = []
                case _:
                    continue
            first = min(part.lineno for part in [node, *getattr(node, "decorator_list", ())])
            lines[first - 1 : node.end_lineno] = replacement
        text += "".join(lines)
    if sorted(replaced) != sorted(values):
        raise RuntimeError(f"the kernel templates must define each of {[*values]} once")
    return text


# ---- the loops that call a rule

UPDATE = "e, g, minimizer, random, state, settings, shared_state, groups, lr_scale, t, status, rule_workspace"

# `count` is not a constant: LLVM would unroll a short loop of constant length before it could vectorise it.
UPDATE_COORDINATES = """from numba import carray


@njit(**JIT_INLINE)
def update({parameters}):
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        {read_shared}
        for i in range(low, high, ROW_SIZE):
            at, count = np.uintp(i), min(ROW_SIZE, high - i)
            {apply_rule}
        low = high
"""

UPDATE_GROUPS = """@njit(**JIT_INLINE)
def update({parameters}):
    low = 0
    for block in range(groups.size):
        n = groups[block]
        for k in range(WIDTH):
            if status[k] != RUNNING:
                continue
            for i in range(n):
                at = (low + i) * WIDTH + k
                rule_workspace[0, i] = 0.0
                rule_workspace[1, i] = g[at]
                rule_workspace[2, i] = e[at] + minimizer[at]
                rule_workspace[3, i] = random[at]
                {read_state}
            {apply_rule}
            for i in range(n):
                at = (low + i) * WIDTH + k
                e[at] -= rule_workspace[0, i]
                {write_state}
        low += n
"""

ONCE_PER_STEP = """@njit(**JIT_INLINE)
def once_per_step(shared_state, settings, lr_scale, t):
    {body}
"""


def _update_coordinates(optimizer: type[Optimizer], form: Form) -> str:
    """`update` for a rule of one coordinate: ROW_SIZE coordinates at a time; shared settings are read once."""
    index = "at + np.uintp(k)"
    values = {"g": f"g[{index}]", "w": f"(e[{index}] + minimizer[{index}])", "random": f"random[{index}]", "t": "t"}
    values |= {name: f"state[{s}, {index}]" for s, name in enumerate(optimizer.state)}
    values |= _settings(optimizer, f"0, {index}" if form.width == 1 else "block, k")
    values |= _shared_state(optimizer, "k")
    read_shared = []
    if form.shared_settings:
        shared = {name: value for name, value in _settings(optimizer, "block, 0").items() if name != "lr"}
        shared |= _shared_state(optimizer, "0")
        used = parameter_names(optimizer.rule)
        read_shared = [f"shared_{name} = {value}" for name, value in shared.items() if name in used]
        values |= {name: f"shared_{name}" for name in shared}
    targets = ["subtract_row(e, i, {row}, count)"]
    targets += [f"copy_row(state, {s} * state.shape[1] + i, {{row}}, count)" for s in range(len(optimizer.state))]
    return UPDATE_COORDINATES.format(
        parameters=UPDATE,
        read_shared=_lines(read_shared, 8),
        apply_rule=_lines(_through_stack(_call("rule", optimizer.rule, values), targets), 12),
    )


def _update_groups(optimizer: type[Optimizer]) -> str:
    """`update` for a rule of a whole block: each lane's values are copied to the workspace and back."""
    rows = ["step", "g", "w", "random", *optimizer.state]
    values = {name: f"rule_workspace[{row}, :n]" for row, name in enumerate(rows)} | {"t": "t"}
    values |= _shared_state(optimizer, "k") | _settings(optimizer, "block, k")
    states = range(len(optimizer.state))
    return UPDATE_GROUPS.format(
        parameters=UPDATE,
        read_state=_lines([f"rule_workspace[{4 + s}, i] = state[{s}, at]" for s in states], 16),
        apply_rule=_call("rule", optimizer.rule, values),
        write_state=_lines([f"state[{s}, at] = rule_workspace[{4 + s}, i]" for s in states], 16),
    )


def _once_per_step(optimizer: type[Optimizer], form: Form) -> str:
    """`once_per_step` for all lanes; only for the first one if they share their settings."""
    body = ["pass"]
    if optimizer.once_per_step is not None:
        by_coordinate = optimizer.scope == "coordinate"
        lane = "0" if form.shared_settings and by_coordinate else "k"
        shared_state = _shared_state(optimizer, lane)
        values = shared_state | _settings(optimizer, f"0, {lane}") | {"t": "t"}
        call = _call("rule_once_per_step", optimizer.once_per_step, values)
        assignment = f"{', '.join(shared_state.values())} = {call}"
        if lane == "0":
            body = [assignment]
        elif by_coordinate:
            size = "shared_state.shape[1]"
            targets = [f"repeat_row(shared_state, {c} * {size}, {{row}}, {size})" for c in range(len(shared_state))]
            body = ["count = WIDTH", *_through_stack(call, targets)]
        else:
            body = ["for k in range(WIDTH):", f"    {assignment}"]
    return ONCE_PER_STEP.format(body=_lines(body, 4))


def _through_stack(call: str, targets: list[str]) -> list[str]:
    """Lines that evaluate the call for every k and pass the results to the targets.

    Results go to the stack first: then LLVM need not prove that the arrays of the loop do not overlap.
    """
    rows = [f"row{n}" for n in range(len(targets))]
    lines = [f"{row} = stack_row()" for row in rows]
    lines += [f"{row}_values = carray({row}, (ROW_SIZE,))" for row in rows]
    lines += ["for k in range(count):", f"    {', '.join(f'{row}_values[k]' for row in rows)} = {call}"]
    return lines + [target.format(row=row) for row, target in zip(rows, targets, strict=True)]


def _call(name: str, function: Any, values: dict[str, str]) -> str:
    return f"{name}({', '.join(values[parameter] for parameter in parameter_names(function))})"


def _settings(optimizer: type[Optimizer], index: str) -> dict[str, str]:
    """The expressions for the rule's settings; the learning rate is multiplied by the schedule's scale."""
    expressions = {name: f"settings[{p}, {index}]" for p, name in enumerate(setting_names(optimizer))}
    return {name: f"({at} * lr_scale)" if name == "lr" else at for name, at in expressions.items()}


def _shared_state(optimizer: type[Optimizer], lane: str) -> dict[str, str]:
    return {name: f"shared_state[{c}, {lane}]" for c, name in enumerate(optimizer.shared_state)}


def _lines(lines: list[str], indent: int) -> str:
    return ("\n" + " " * indent).join(lines)


# ---- the parameters of a rule


def requested_names(optimizer: type[Optimizer]) -> list[str]:
    """The parameters of the rule and its once_per_step, each once."""
    functions = [function for function in (optimizer.rule, optimizer.once_per_step) if function is not None]
    return list(dict.fromkeys(name for function in functions for name in parameter_names(function)))


def setting_names(optimizer: type[Optimizer]) -> tuple[str, ...]:
    """The settings among these parameters, in the order of the kernel's array."""
    others = {*RULE_ARGUMENTS, *optimizer.state, *optimizer.shared_state}
    names = tuple(name for name in requested_names(optimizer) if name not in others)
    for name in names:
        if name not in {item.name for item in fields(optimizer)}:
            raise InputError(
                f"the rule of {optimizer.name} asks for {name!r}, which is neither g, w, t, random, state, "
                "shared_state nor a setting"
            )
    return names
