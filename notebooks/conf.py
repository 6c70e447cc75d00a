"""The book, which `make docs` builds from this folder, without a network."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "privopt"
author = "The privopt authors"
project_copyright = author
release = installed("privopt")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinxcontrib.bibtex",
    "book.api",
    "book.plates",
    "book.mathematics",
]
exclude_patterns = ["__pycache__", ".ipynb_checkpoints", "book"]
nitpicky = True  # a reference that leads nowhere is a warning, and a warning stops the build

# Notebooks are shown as they were committed. A page's own cells are quick, and run.
nb_execution_mode = "off"
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
html_static_path = ["book/static"]
html_css_files = ["book.css"]
