"""Check the built pages: python docs/_ext/check_site.py [FOLDER]

Every link to a page or an anchor of the site must exist; no page, style sheet or script may load anything from
elsewhere; links that leave the site must be of a known form, so that no address is invented.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

LOADS = {  # attributes by which a page loads files
    "script": ("src",), "link": ("href",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"),
    "video": ("src", "poster"), "audio": ("src",), "object": ("data",), "embed": ("src",), "input": ("src",),
}  # fmt: skip
NOT_LOADED = {
    "canonical",
    "next",
    "prev",
    "index",
    "search",
    "author",
    "copyright",
}  # rel= of <link> that loads nothing
REMOTE = re.compile(r"^(https?:)?//", re.IGNORECASE)
CSS_LOAD = re.compile(r"""url\(\s*["']?((?:https?:)?//[^)"']+)|@import\s+["']((?:https?:)?//[^"']+)""", re.IGNORECASE)
JS_LOAD = re.compile(
    r"""(?:fetch|import|importScripts|\.open|\.src\s*=|\.href\s*=)\s*\(?\s*["'`]((?:https?:)?//[^"'`]+)"""
)
KNOWN = (  # links that leave the site
    r"https://arxiv\.org/abs/\d{4}\.\d{4,5}(v\d+)?",
    r"https://doi\.org/10\.\d{4,}/\S+",
    r"https://(docs\.python|numpy|scipy|matplotlib|pytorch|numba|optax\.readthedocs|docs\.dask|sqlite|keepachangelog)\b\S*",
    r"https://(peps|packaging)\.python\.org/\S*",
    r"https://(semver|citation-file-format)\.\S*",
    r"https://github\.com/\S+",
)


class Page(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and set(values.get("rel", "").split()) & NOT_LOADED:
            return
        for name in LOADS.get(tag, ()):
            if name in values:
                parts = values[name].split(",") if name == "srcset" else [values[name]]
                self.loads += [part.split()[0] for part in parts if part.split()]
        self.loads += [url for match in CSS_LOAD.findall(values.get("style", "")) for url in match if url]


def check(folder: Path) -> list[str]:
    """The faults of a site, one line each."""
    files = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.relative_to(folder).parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    faults = [] if pages else [f"{folder} has no pages"]
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        faults += [
            f"{name} loads {load}" for load in page.loads if REMOTE.match(load) or "//" in load.partition("?")[0]
        ]
        for link in page.links:
            faults += [f"{name}: {fault}" for fault in _link_faults(link, path, pages)]
        for load in page.loads:
            file = path.parent / unquote(load.partition("?")[0].partition("#")[0])
            if not REMOTE.match(load) and not load.startswith("data:") and not file.is_file():
                faults.append(f"{name} loads {load}, which does not exist")
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.js")]):
        pattern = CSS_LOAD if path.suffix == ".css" else JS_LOAD
        for match in pattern.finditer(path.read_text(encoding="utf-8", errors="replace")):
            faults.append(f"{path.relative_to(folder).as_posix()} loads {next(filter(None, match.groups()))}")
    return faults


def _link_faults(link: str, path: Path, pages: dict[Path, Page]) -> list[str]:
    if REMOTE.match(link):
        return [] if any(re.fullmatch(known, link) for known in KNOWN) else [f"the address {link} has no known form"]
    if link.startswith(("mailto:", "javascript:", "data:")):
        return [f"a link to {link[:40]}"]
    target, anchor = urldefrag(link)
    file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path.resolve()
    if not file.is_file():
        return [f"{link} does not exist"]
    if anchor and file.suffix == ".html" and unquote(anchor) not in pages[file].anchors:
        return [f"{link} has no such anchor"]
    return []


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "_build" / "html"
    found = check(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default)
    print("\n".join(found) or "no faults")
    sys.exit(bool(found))
