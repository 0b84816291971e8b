"""Sphinx extension of this documentation: the role ``fact``, and what executed fences show."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import facts
import fences
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
_COMMENT = re.compile(r"<!--\s*(show|not executed):\s*(.*?)\s*-->", re.DOTALL)


def fact_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """{fact}`name`: the text of a fact."""
    try:
        return [nodes.inline(rawtext, facts.text(text), classes=["fact"])], []
    except (KeyError, TypeError, OSError) as error:
        message = inliner.reporter.error(str(error.args[0] if error.args else error), line=lineno)
        return [nodes.problematic(rawtext, rawtext)], [message]


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
            block = comment.next_node(nodes.literal_block, descend=False, siblings=True)
            parent = comment.parent
            at = parent.index(block) + 1
            if match[1] == "not executed":
                parent.insert(
                    at, nodes.paragraph("", f"Not executed in the tests: {match[2]}.", classes=["not-executed"])
                )
            else:
                parent.insert(at, self._shown(page, next(shown)))
            parent.remove(comment)

    def _shown(self, page: Path, fence: fences.Fence) -> nodes.Element:
        file = fences.SHOWN / self.env.docname / fence.shown_as
        if not file.is_file():
            logger.warning(
                "line %s shows nothing: build with python docs/build.py", fence.line, location=self.env.docname
            )
            return nodes.comment()
        if fence.show == "output":
            text = file.read_text(encoding="utf-8").rstrip("\n")
            return nodes.literal_block(text, text, language="text", classes=["output"])
        alt = file.with_suffix(".alt").read_text(encoding="utf-8")
        return nodes.image(uri=os.path.relpath(file, page.parent), alt=alt, classes=["shown"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("fact", fact_role)
    app.add_transform(ShowOutputs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
