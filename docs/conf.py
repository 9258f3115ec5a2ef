"""Sphinx settings; tools/build_docs.py writes the pages and calls Sphinx."""
import json
from configparser import ConfigParser
from pathlib import Path

folder = Path(__file__).resolve().parent
settings = ConfigParser()
settings.read(folder.parent / "settings.ini", encoding="utf-8")
settings = settings["DEFAULT"]

project, author, version = settings["title"], settings["author"], settings["version"]
copyright, release = settings["copyright"], version

extensions = ["myst_nb", "sphinx.ext.mathjax", "sphinx_copybutton"]
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "dollarmath", "fieldlist"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"chtml": {"displayAlign": "left", "displayIndent": "1.5em"}}
copybutton_selector = "div.cell_input pre, details.source pre, .pitch pre"

smartquotes_action = "D"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"{project} {version}"
templates_path = ["templates"]
html_static_path = ["static", "_source/_static"]
html_css_files, html_js_files = ["site.css"], ["site.js"]
html_favicon = "static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_context = {"parts": json.loads((folder / "_source" / "sidebar.json").read_text(encoding="utf-8"))}
html_search_scorer = str(folder / "static" / "scorer.js")
