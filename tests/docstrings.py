"""What the docstring of a public object must contain, and the list of public objects.

    python tests/docstrings.py        prints the coverage by module, and what is missing

A public object is a name that a user reaches: what `dir` lists of `quadsim` and of its public modules, the classes that
a user extends or that public functions return, and the public methods and properties of all of these classes. A
docstring has the numpydoc sections Parameters (every parameter, or every field of a record), Returns (or Yields) where
something is returned, and Examples; a property needs a summary. `quadsim.hessian` is included where torch is installed.
"""

import ast
import dataclasses
import enum
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import quadsim

PACKAGE = Path(quadsim.__file__).parent
MODULES = ("", "theory", "spectra", "plots", "optimizers", "table", "claims", "reproduce", "hessian")
EXTENDED = (  # further objects that users subclass, call when they add something, or get from a public function
    "optimizers.recurrence:Recurrence",
    "optimizers.settings:positive",
    "optimizers.settings:nonnegative",
    "optimizers.settings:fraction",
    "optimizers.settings:number",
    "optimizers.settings:whole",
    "optimizers.settings:flag",
    "optimizers.settings:choice",
    "problems.noise:NoiseModel",
    "problems.noise:Gaussian",
    "problems.noise:Labels",
    "comparison.evaluation:EvaluationProtocol",
    "claims.ledger:claim",
    "claims.ledger:Verdict",
    "claims.observations:Draw",
    "claims.observations:Observation",
)
RULES = {"rule", "once_per_step"}  # of an optimizer: compiled; the docstring of its class has the formula
SECTION = re.compile(r"^([A-Z][A-Za-z ]*)\n-{3,}[ ]*$", re.MULTILINE)
TORCH = importlib.util.find_spec("torch") is not None


def public_modules():
    for name in MODULES:
        if name != "hessian" or TORCH:
            dotted = f"quadsim.{name}".rstrip(".")
            yield dotted, quadsim.table if name == "table" else importlib.import_module(dotted)


@functools.cache
def public_names():
    """Every public name with its value, each value once; modules are left out."""
    found, seen = {}, set()
    for dotted, module in public_modules():
        names = getattr(module, "__all__", None) or dir(module)
        for name in sorted(names):
            value = getattr(module, name)
            if name.startswith("_") or isinstance(value, ModuleType) or id(value) in seen:
                continue
            if getattr(value, "user_defined", False):  # a rule that a test registered
                continue
            seen.add(id(value))
            found[f"{dotted}.{name}"] = value
    for entry in EXTENDED:
        module, _, name = entry.partition(":")
        value = getattr(importlib.import_module(f"quadsim.{module}"), name)
        if id(value) not in seen:
            found[f"quadsim.{module}.{name}"] = value
    return found


@functools.cache
def documented():
    """The public functions, classes, methods and properties, by name; and the constants."""
    names = public_names()
    classes = [value for value in names.values() if inspect.isclass(value)]
    objects, constants, seen = {}, {}, set()
    for name, value in names.items():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            constants[name] = value
            continue
        objects[name] = value
        bases = value.__mro__ if inspect.isclass(value) else ()
        for base in bases:  # those that are public have their own entries
            if base.__module__.startswith("quadsim.") and (base is value or base not in classes):
                objects |= {key: one for key, one in members(base, name).items() if id(one) not in seen}
                seen |= {id(one) for one in members(base, name).values()}
    return objects, constants


def members(kind, prefix):
    """The public methods and properties that a class itself defines."""
    found = {}
    for name, value in vars(kind).items():
        if name.startswith("_") or (name in RULES and hasattr(kind, "settings")):
            continue
        value = getattr(value, "__func__", value)
        if inspect.isfunction(value) or is_property(value):
            found[f"{prefix}.{name}"] = value
    return found


def is_property(value):
    return isinstance(value, property | functools.cached_property)


def docstring(name):
    """The docstring of a public object; a method without one inherits that of its base class."""
    value = documented()[0][name]
    if inspect.isclass(value):
        return inspect.cleandoc(vars(value).get("__doc__") or "")
    owner = documented()[0].get(name.rpartition(".")[0])
    if inspect.isclass(owner):
        bases = [vars(base).get(name.rpartition(".")[2]) for base in owner.__mro__]
        texts = [getattr(getattr(one, "__func__", one), "__doc__", None) for one in bases if one is not None]
        return inspect.cleandoc(next(filter(None, texts), ""))
    return inspect.cleandoc(value.__doc__ or "")


def sections(text):
    """The numpydoc sections by title; the text before the first is "Summary"."""
    parts = SECTION.split(text)
    found = {"Summary": parts[0].strip()}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        found[title] = body.strip("\n")
    return found


def entries(body):
    """The names that a section describes: ``a, b : type``, ``**how``."""
    names = {}
    lines = body.splitlines()
    for number, line in enumerate(lines):
        if not line or line[0].isspace():
            continue
        described = number + 1 < len(lines) and lines[number + 1].startswith(" ")
        for name in line.partition(":")[0].split(","):
            names[name.strip().lstrip("*")] = described or ":" in line
    return names


def parameters(value):
    """The names of the parameters of a function, or of the fields of a record."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return list(value.__members__)
    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    if inspect.isclass(value) and hasattr(value, "_fields"):
        return list(value._fields)
    if inspect.isclass(value) and "__init__" not in vars(value):
        return []
    names = list(inspect.signature(value).parameters)
    return [name for name in names if name not in ("self", "cls")]


def complaints(value, text):
    """What is missing from the docstring of an object."""
    found = sections(text)
    summary = found["Summary"].split("\n\n")[0]
    if not summary or not summary.rstrip().endswith((".", ":")):
        yield "no summary that is a sentence"
    if is_property(value):
        return
    described = entries(found.get("Parameters", "")) | entries(found.get("Attributes", ""))
    described |= entries(found.get("Other Parameters", ""))
    own = parameters(value)
    yield from (f"parameter {name} is not described" for name in own if not described.get(name))
    if inspect.isfunction(value):
        yield from (f"{name} is described and not a parameter" for name in described if name not in own)
        returned = str(inspect.signature(value).return_annotation)
        if returned != "None" and not ("Returns" in found or "Yields" in found):
            yield "no section Returns"
    if ">>> " not in found.get("Examples", ""):
        yield "no section Examples with a doctest"
    elif "SKIP" in found["Examples"]:
        yield "an example is skipped"


def is_annotated(name):
    """Whether the comment before a constant, or at the end of its line, says what it is: ``#: text``."""
    constant = name.rpartition(".")[2]
    assignment = re.compile(
        rf"^(?:#:.+\n(?:# .+\n|#: .+\n)*{constant}\b.* = |{constant}\b.* = .*  #: .+)", re.MULTILINE
    )
    return any(assignment.search(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))


def docstrings_with_examples():
    """The place (file, name) of every docstring in the package that has a doctest, from the source text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "compiled" in path.parts or (path.parent.name == "hessian" and not TORCH):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ">>> " in (ast.get_docstring(node) or ""):
                yield f"{path.relative_to(PACKAGE.parent)}:{node.name}", ast.get_docstring(node)


def coverage():
    """Complaints by object, for functions, classes, methods and constants."""
    objects, constants = documented()
    found = {name: list(complaints(value, docstring(name))) for name, value in objects.items()}
    return found | {name: [] if is_annotated(name) else ["no comment #: above it"] for name in constants}


if __name__ == "__main__":
    everything = coverage()
    for name, missing in everything.items():
        if missing and "-q" not in sys.argv:
            print(f"{name}: {'; '.join(missing)}")
    good = sum(not missing for missing in everything.values())
    print(f"{good} of {len(everything)} public names are documented: {good / len(everything):.1%}")
