"""Configuration of the book, which `make docs` builds without a network."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "privopt"
author = "The privopt authors"
project_copyright = author
release = installed("privopt")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinxcontrib.bibtex",
    "_ext.api",
    "_ext.mathematics",
    "_ext.notebooks",
    "_ext.results",
]
exclude_patterns = ["__pycache__", ".ipynb_checkpoints", "_ext"]
nitpicky = True  # warn about references without a target

nb_execution_mode = "off"  # show the committed outputs
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

bibtex_bibfiles = ["../privopt/references.bib"]
bibtex_default_style = "plain"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_math_renderer = "mathml"
html_title = "privopt"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
