"""Configuration of Sphinx: Markdown pages through MyST, the API from the docstrings."""

from __future__ import annotations

import roep_gym

project = "roep-gym"
version = release = roep_gym.__version__
copyright = "the roep-gym authors"

extensions = [
    "myst_parser",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

apidoc_modules = [
    {"path": "../roep_gym", "destination": "api", "follow_links": True, "separate_modules": True}
]
# Docstrings write code in single backticks, as Markdown does.
default_role = "code"
napoleon_use_ivar = True
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["libero", "robosuite", "mujoco", "OpenGL"]

suppress_warnings = ["ref.python"]
html_theme = "alabaster"
