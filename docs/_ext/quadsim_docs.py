"""Sphinx extension of this documentation: roles, what executed fences show, and docstrings that are plain text.

Roles: {fact}`name` is the text of a fact, {claim}`2b` a link to a claim of the ledger, {api}`quadsim.solve` a link to
the reference if the name is documented. Docstrings use single backticks like {api}.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from pathlib import Path
from typing import Any

import facts
import fences
import pages_api
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from quadsim.claims.ledger import LEDGER

logger = logging.getLogger(__name__)
_COMMENT = re.compile(r"<!--\s*(show|not executed):\s*(.*?)\s*-->", re.DOTALL)
_MARKUP = re.compile(r"(?<!\\)(?:\||(?<=\w)_(?!\w)|\b(?:tcp|tls)://)")  # in a docstring
_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
Nodes = tuple[list[nodes.Node], list[nodes.system_message]]


class FactRole(SphinxRole):
    """The text of a fact."""

    def run(self) -> Nodes:
        try:
            return [nodes.inline(self.rawtext, facts.text(self.text), classes=["fact"])], []
        except (KeyError, TypeError, OSError) as error:
            message = self.inliner.reporter.error(str(error.args[0] if error.args else error), line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]


class ClaimRole(SphinxRole):
    """A link to a claim of the ledger."""

    def run(self) -> Nodes:
        if self.text not in LEDGER:
            message = self.inliner.reporter.error(f"no claim {self.text!r} is in the ledger", line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        options = {"refdomain": "std", "reftype": "ref", "refexplicit": True, "refwarn": True}
        reference = addnodes.pending_xref(self.rawtext, reftarget=f"claim-{self.text}", **options)
        reference["refdoc"] = self.env.docname
        reference += nodes.inline("", f"claim {self.text}", classes=["xref", "std", "std-ref"])
        return [reference], []


class ApiRole(SphinxRole):
    """A link to a documented name; code if the text is not the name of anything documented."""

    def run(self) -> Nodes:
        target = resolve(self.text)
        if target is None:
            return [nodes.literal(self.rawtext, self.text)], []
        options = {"refdomain": "py", "reftype": "obj", "refexplicit": True, "refwarn": True}
        reference = addnodes.pending_xref(self.rawtext, reftarget=target, **options)
        reference["refdoc"] = self.env.docname
        reference += nodes.literal("", self.text, classes=["xref", "py", "py-obj"])
        return [reference], []


@functools.cache
def resolve(name: str) -> str | None:
    """The full name under which something is documented: `solve`, `qs.solve`, `theory.floor`, `BlockQuadratic.mu`."""
    name = name.removesuffix("()").removeprefix("qs.").removeprefix("quadsim.")
    objects = pages_api.documented()
    modules = ("", *(f"{module}." for module in (*pages_api.TOP_LEVEL_MODULES, *pages_api.OTHER_MODULES)))
    if "." not in name and not name[:1].isupper():
        modules = modules[:1]  # `rate` may be anything; `theory.rate` is a function
    for prefix in modules:
        path = f"quadsim.{prefix}{name}"
        if path in objects:
            return path
        owner, _, member = path.rpartition(".")
        if inspect.isclass(kind := objects.get(owner)) and getattr(vars(kind).get(member), "__doc__", None):
            return path
    return None


class ShowOutputs(SphinxTransform):
    """Put below a fence what it shows, or the reason why it is not executed; remove the comments."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        page = Path(self.env.doc2path(self.env.docname))
        if page.suffix != ".md":
            return
        shown = iter([fence for fence in fences.of(page) if fence.show])
        for comment in list(self.document.findall(nodes.raw)):
            match = _COMMENT.fullmatch(comment.astext().strip())
            if not match:
                continue
            parent = comment.parent
            block = comment.next_node(nodes.literal_block, descend=False, siblings=True)
            at = parent.index(block) + 1
            if match[1] == "not executed":
                text = f"Not executed in the tests: {match[2].rstrip('.')}."
                parent.insert(at, nodes.paragraph("", text, classes=["not-executed"]))
            else:
                parent.insert(at, self._shown(page, next(shown)))
            parent.remove(comment)

    def _shown(self, page: Path, fence: fences.Fence) -> nodes.Element:
        file = fences.SHOWN / self.env.docname / fence.shown_as
        if not file.is_file():
            message = "line %s shows nothing: build with python docs/build.py"
            logger.warning(message, fence.line, location=self.env.docname)
            return nodes.comment()
        if fence.show == "output":
            text = file.read_text(encoding="utf-8").rstrip("\n")
            return nodes.literal_block(text, text, language="text", classes=["output"])
        alt = file.with_suffix(".alt").read_text(encoding="utf-8")
        return nodes.image(uri=os.path.relpath(file, page.parent), alt=alt, classes=["shown"])


def escape_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text, read in consoles: |m| is no substitution, w_ no reference, tcp:// no link."""
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = _LITERAL.split(line)
            parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("fact", FactRole())
    app.add_role("claim", ClaimRole())
    app.add_role("api", ApiRole())
    app.add_transform(ShowOutputs)
    app.connect("autodoc-process-docstring", escape_docstring, priority=100)  # before numpydoc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
