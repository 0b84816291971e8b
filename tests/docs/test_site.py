"""Links between pages, and the check of the built site."""

import re

import check_site
import fences
import generate
import pytest

LINK = re.compile(r"(?<!\\)\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
ARXIV = re.compile(r"arxiv\.org/abs/(\d{4}\.\d{4,5})")
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
PAGES = [page for page in fences.pages() if page.is_relative_to(fences.DOCS)]


def generated():
    """The paths of generated pages; those of the API, which need torch to be written, by their names."""
    return {fences.DOCS / name for name in generate.pages(without=["pages_api"])} | {fences.DOCS / "reference/api.md"}


@pytest.mark.parametrize("page", PAGES, ids=fences.name_of)
def test_links_to_files_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        path = (page.parent / target).resolve()
        assert path.exists() or path in generated(), target


def test_every_page_is_in_one_table_of_contents():
    """Pages of the API are listed in reference/api.md, which test_reference.py checks."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {fences.DOCS / name: text for name, text in generate.pages(without=["pages_api"]).items()}
    listed = []
    for page, text in texts.items():
        for block in TOCTREE.findall(text):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    entry = line.partition("<")[2].rstrip(">") or line
                    listed.append(
                        (page.parent / entry.removesuffix(".md")).resolve().relative_to(fences.DOCS).as_posix()
                    )
    pages = {page.relative_to(fences.DOCS).with_suffix("").as_posix() for page in texts if page.suffix == ".md"}
    pages = {page for page in pages if not page.startswith("reference/api")} - {"index"}
    assert sorted(page for page in listed if not page.startswith("reference/api")) == sorted(pages)


def test_papers_that_pages_link_to_are_known_to_the_project():
    """An arXiv number in the documentation also stands in the code, an experiment or a record of a figure."""
    sources = [*fences.ROOT.glob("quadsim/**/*.py"), *fences.ROOT.glob("experiments/*.py")]
    sources += fences.ROOT.glob("figures/*.json")
    known = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for page in fences.pages():
        for number in ARXIV.findall(page.read_text(encoding="utf-8")):
            assert number in known, f"{page}: {number}"


HOME = '<html><body id="top"><a href="other.html#part">x</a><a href="#top">y</a><img src="a.svg"></body></html>'


@pytest.fixture
def site(tmp_path):
    """A small site without faults."""
    (tmp_path / "index.html").write_text(HOME)
    (tmp_path / "other.html").write_text('<p id="part"><a href="https://arxiv.org/abs/2402.16788">paper</a></p>')
    (tmp_path / "a.svg").write_text("<svg/>")
    (tmp_path / "style.css").write_text("p { background: url(a.svg) }")
    (tmp_path / "code.js").write_text('// see https://example.org\nconst here = "https://example.org";')
    return tmp_path


def test_a_site_without_faults(site):
    assert check_site.check(site) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("index.html", HOME.replace("other.html#part", "absent.html"), "index.html: absent.html does not exist"),
        ("index.html", HOME.replace("#part", "#no"), "index.html: other.html#no has no such anchor"),
        ("index.html", HOME.replace("#top", "#no"), "index.html: #no has no such anchor"),
        ("index.html", HOME.replace("a.svg", "b.svg"), "index.html loads b.svg, which does not exist"),
        (
            "index.html",
            HOME.replace("a.svg", "https://example.org/a.svg"),
            "index.html loads https://example.org/a.svg",
        ),
        ("index.html", '<script src="//example.org/x.js"></script>', "index.html loads //example.org/x.js"),
        ("index.html", '<link rel="stylesheet" href="https://x.org/a.css">', "index.html loads https://x.org/a.css"),
        ("index.html", '<p style="background: url(https://x.org/a.png)">', "https://x.org/a.png"),
        ("index.html", '<a href="https://made-up.example/x">x</a>', "made-up.example/x has no known form"),
        ("style.css", "@import 'https://x.org/a.css';", "style.css loads https://x.org/a.css"),
        ("style.css", "p { background: url(//x.org/a.png) }", "style.css loads //x.org/a.png"),
        ("code.js", 'fetch("https://x.org/data")', "code.js loads https://x.org/data"),
    ],
)
def test_a_fault_is_found(site, file, text, fault):
    (site / file).write_text(text)
    found = check_site.check(site)
    assert len(found) == 1
    assert fault in found[0]


def test_an_empty_site_is_a_fault(tmp_path):
    assert check_site.check(tmp_path) == [f"{tmp_path} has no pages"]
