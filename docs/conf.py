"""Sphinx's settings for the documentation site: `python -m sphinx -W --keep-going docs build/site`."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

project = "aioexec"
copyright = "2026, the authors of aioexec"
html_title = "aioexec"
html_theme = "furo"
html_show_sphinx = False

extensions = [
    "myst_parser",  # the pages are Markdown, which GitHub shows too
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "reference_pages",
]
exclude_patterns = ["build"]
myst_heading_anchors = 3  # links to headings, as on GitHub
default_role = "code"
python_use_unqualified_type_names = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures name the arguments; types of most are "Any"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # else the fields of named tuples are described twice

linkcheck_anchors = False
linkcheck_timeout = 20
