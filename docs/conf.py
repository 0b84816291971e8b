"""Sphinx configuration. Build with `python docs/build.py`, which executes the code of the pages first."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

from sphinxcontrib import katex  # noqa: E402

import quadsim  # noqa: E402

# Over a Unix socket the extension may connect before node listens, and fails; over a loopback port it tries again.
katex.KaTeXServer.start_server_process = katex.KaTeXServer.start_network_socket
katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0  # seconds, for a busy machine

project = "quadsim"
author = "quadsim developers"
copyright = "quadsim developers"
version = release = quadsim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinxcontrib.katex",
    "quadsim_docs",
]
exclude_patterns = ["_build", "_ext"]
nitpicky = True
default_role = "api"  # what single backticks mean in docstrings
suppress_warnings: list[str] = []

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4

autosummary_generate = False  # the pages of the API are written by api_pages.py
autodoc_typehints = "none"  # the Parameters sections name the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

katex_prerender = True  # through node, when the pages are built
katex_css_path = "katex-mathml.css"  # a file of _static: shows the MathML, which browsers draw with fonts of their own

html_theme = "pydata_sphinx_theme"
html_title = "quadsim"
html_static_path = ["_static"]
html_css_files = ["quadsim.css"]
html_js_files = ["tables.js"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in ("index", "gallery", "contributing", "changelog")}  # nothing below them
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "explanation/ledger": [], "explanation/verdicts": []},
    "navbar_persistent": ["search-button"],  # an icon: a field does not fit on one line with the links
    "navbar_end": ["theme-switcher"],
}
