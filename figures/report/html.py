"""A page as one HTML file: style, script and figures inside; a policy in it forbids the browser to fetch anything."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec

from perfmodel.errors import PerfmodelError

from .parts import Page

NEEDED = ("jinja2", "matplotlib")


def require_libraries() -> None:
    """Nothing where the libraries are installed; else ``PerfmodelError`` with the extra that brings them."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise PerfmodelError(f"a report needs {' and '.join(missing)}: pip install 'perfmodel[report]'")


def content_policy(script: str) -> str:
    """A policy that allows this one script, styles and pictures inside the page, and nothing from anywhere else."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    allowed = (f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'", "img-src data:")
    return "; ".join(("default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"))


def html_text(page: Page) -> str:
    """The page as HTML; the same page gives the same text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=False
    )
    templates = files(__package__).joinpath("templates")
    style, script = (templates.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return environment.get_template("page.html.jinja").render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        policy=Markup(content_policy(script)),
        version=version("perfmodel"),
    )
