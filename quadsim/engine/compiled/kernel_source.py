"""The text of a kernel: templates with an optimizer's rule inserted.

The templates are `kernel_parameters`, `simd`, `random` and `kernel_template`, joined in this order; the rule takes the
place of `update` and `once_per_step`. In a generic kernel `rule_call` takes their place, and the rule has a text of its
own. The texts import nothing from quadsim, since numba's cache does not notice changes of imported functions. So the
texts, and their hashes, cover all code of a kernel.
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
RULE_CALL = "rule_call"  # the template that only generic kernels have
RULE_TEMPLATES = ("kernel_parameters", "simd", RULE_CALL)  # of a rule that is compiled separately
RULE_FUNCTIONS = ("update", "once_per_step")  # of the template, replaced by those of the optimizer
RULE_ARGUMENTS = ("g", "w", "t", "random", "step")  # of a rule, besides its state, shared_state and settings
WIDTHS = (1, 8, 32)  # lanes of a kernel


class Form(NamedTuple):
    """What a kernel is compiled for, besides the optimizer."""

    width: int  # number of lanes
    noisy: bool = False  # gradients may have noise
    shared_settings: bool = True  # lanes have the same settings except their learning rates: less memory is read
    generic: bool = False  # the rule is compiled separately, and called by its address


# With a single lane settings are always shared. Generic kernels are for short runs, one lane at a time.
FORMS = [Form(*form) for form in itertools.product(WIDTHS, (False, True), (True, False)) if form[0] > 1 or form[2]]
FORMS += [Form(1, noisy, True, True) for noisy in (False, True)]


def kernel_text(
    optimizer: type[Optimizer],
    width: int,
    noisy: bool = False,
    shared_settings: bool = True,
    generic: bool = False,
) -> str:
    """The text of a kernel: the templates with the rule of this optimizer. The other arguments are those of `Form`.

    If generic, the texts of the kernel and of the rule, one after the other; they are compiled separately.
    """
    if generic:
        return "\n\n".join([generic_text(optimizer, noisy), rule_text(optimizer)])
    return _current_text(optimizer, Form(width, noisy, shared_settings))


def rule_text(optimizer: type[Optimizer]) -> str:
    """The text of `apply_rule`, which a generic kernel calls: `once_per_step` and `update` of this optimizer."""
    return _current_text(optimizer, Form(1, generic=True))


def _current_text(optimizer: type[Optimizer], form: Form) -> str:
    """The text, made again if a constant or helper of the rule has been replaced since."""
    key = optimizer, form
    text, rule = _texts.get(key, ("", None))
    if rule is None or not rule.is_current():
        rule = _rule(optimizer)
        text, rule = _texts[key] = _text_with_rule(optimizer, form, rule), rule
    return text


_texts: dict[tuple[type[Optimizer], Form], tuple[str, rule_source.Standalone]] = {}
_rules: dict[type[Optimizer], rule_source.Standalone] = {}


def _rule(optimizer: type[Optimizer]) -> rule_source.Standalone:
    """The functions of the rule as standalone text."""
    known = _rules.get(optimizer)
    if known is not None and known.is_current():
        return known
    rule = rule_source.Standalone(bounds=optimizer.user_defined and optimizer.scope != "coordinate")
    rule.add(optimizer.rule, "rule")
    if optimizer.once_per_step is not None:
        rule.add(optimizer.once_per_step, "rule_once_per_step")
    _rules[optimizer] = rule  # now that it is complete: threads share it
    return rule


def generic_text(optimizer: type[Optimizer], noisy: bool) -> str:
    """The text of the generic kernel: the same for all optimizers that have random numbers, and for all others."""
    parameters = _parameters(optimizer, Form(1, noisy))
    return "\n\n".join([join_templates(_read(*TEMPLATES), parameters), join_templates(_read(RULE_CALL), (), ())])


def _text_with_rule(optimizer: type[Optimizer], form: Form, rule: rule_source.Standalone) -> str:
    update = _update_coordinates(optimizer, form) if optimizer.scope == "coordinate" else _update_groups(optimizer)
    head = join_templates(_read(*(RULE_TEMPLATES if form.generic else TEMPLATES)), _parameters(optimizer, form))
    tail = [APPLY_RULE.format(parameters=UPDATE)] if form.generic else []
    return "\n\n".join([head, rule.text, update, _once_per_step(optimizer, form), *tail])


def _parameters(optimizer: type[Optimizer], form: Form) -> tuple[tuple[str, int], ...]:
    values = {"WIDTH": form.width, "NOISY": form.noisy, "RANDOM": "random" in requested_names(optimizer)}
    return (*values.items(), ("WRAPPED", False))


def _read(*names: str) -> tuple[str, ...]:
    return tuple(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in names)


@functools.cache
def join_templates(
    templates: tuple[str, ...], parameters: tuple[tuple[str, int], ...], removed: tuple[str, ...] = RULE_FUNCTIONS
) -> str:
    """The templates as one text, with these parameters; without docstrings, imports of each other and the rule.

    Raises unless each parameter and each function to remove occurs exactly once.
    """
    lines = {name: f"{name} = {value!r}\n" for name, value in parameters} | dict.fromkeys(removed, "")
    pieces = [piece for template in templates for piece in _pieces(template, tuple(lines))]
    if sorted(name for _, name in pieces if name) != sorted(lines):
        raise RuntimeError(f"the kernel templates must define each of {[*lines]} once")
    return "".join(text + lines.get(name, "") for text, name in pieces)


@functools.cache
def _pieces(template: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The text of a template, cut where one of these names is defined: each text with the name that follows, if any."""
    lines, pieces, end = template.splitlines(keepends=True), [], 0
    for node in parse(template).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.FunctionDef(name=name) if name in names:
                follows = name
            case ast.ImportFrom(module=str(module)) if module.startswith("quadsim."):
                follows = ""
            case ast.Expr(value=ast.Constant()):
                follows = ""
            case _:
                continue
        first = min(part.lineno for part in [node, *getattr(node, "decorator_list", ())])
        pieces.append(("".join(lines[end : first - 1]), follows))
        end = node.end_lineno or first
    return [*pieces, ("".join(lines[end:]), "")]


# ---- the loops that call a rule

UPDATE = (
    "e, g, minimizer, random, state, settings, shared_state, groups, lr_scale, t, status, rule_workspace, rule_address"
)

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

# In generic kernels, for short runs of one lane: it compiles faster.
UPDATE_ONE_BY_ONE = """@njit(**JIT_INLINE)
def update({parameters}):
    for i in range(e.size):
        {results} = {call}
        e[i] -= float(step)
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

APPLY_RULE = """@njit(**JIT)
def apply_rule({parameters}):
    once_per_step(shared_state, settings, lr_scale, t)
    update({parameters})


SIGNATURES = {{"apply_rule": RULE_SIGNATURE}}
"""

ONCE_PER_STEP = """@njit(**JIT_INLINE)
def once_per_step(shared_state, settings, lr_scale, t):
    {body}
"""


def _update_coordinates(optimizer: type[Optimizer], form: Form) -> str:
    """`update` for a rule of one coordinate: ROW_SIZE coordinates at a time; shared settings are read once."""
    index = "i" if form.generic else "at + np.uintp(k)"
    values = {"g": f"g[{index}]", "w": f"(e[{index}] + minimizer[{index}])", "random": f"random[{index}]", "t": "t"}
    values |= {name: f"state[{s}, {index}]" for s, name in enumerate(optimizer.state)}
    values |= _settings(optimizer, f"0, {index}" if form.width == 1 else "block, k")
    values |= _shared_state(optimizer, "k")
    if form.generic:
        values |= _shared_state(optimizer, "0")
        results = ", ".join(["step", *(values[name] for name in optimizer.state)])
        call = _call("rule", optimizer.rule, values)
        return UPDATE_ONE_BY_ONE.format(parameters=UPDATE, results=results, call=call)
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
