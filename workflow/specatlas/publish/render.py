"""Our own template step: jinja2 with autoescape, and no undefined name passes silently.

Text from cards and records goes into raw HTML blocks, where Markdown leaves it alone and autoescape makes it harmless.
Only headings are Markdown, so that they reach the table of contents; the filter `md` disarms them.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from specatlas.publish.errors import SiteError
from specatlas.publish.links import external
from specatlas.publish.methods import bounds_of, paper_address

# mkdocs-material prints a title as it is into the navigation and, unescaped once, into <title>: no escaping is right in
# both places, so the signs that could open a tag are replaced by look-alikes.
LOOK_ALIKES = str.maketrans({"<": "‹", ">": "›", '"': "”", "&": "+"})


def markdown_text(text: str) -> Markup:
    """Text for a Markdown heading: every sign that Markdown or HTML could act on becomes a character reference."""
    plain = " ".join(text.split())
    return Markup("".join(_reference(sign) for sign in plain))


def _reference(sign: str) -> str:
    return f"&#{ord(sign)};" if sign.isascii() and not sign.isalnum() and sign not in " .,:;-" else sign


def page_title(text: str) -> str:
    """A page title that no place of the theme can mistake for markup."""
    return " ".join(text.split()).translate(LOOK_ALIKES)


class Renderer:
    """Renders the templates of one folder."""

    def __init__(self, templates: Path) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(templates),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "md": markdown_text,
            "page_title": page_title,
            "external": external,
            "bounds": bounds_of,
            "paper_address": paper_address,
        }

    def __call__(self, template: str, **context: Any) -> str:
        """Renders one template.

        Raises:
            SiteError: The template is missing or broken, or uses a name that it was not given.
        """
        try:
            return self._environment.get_template(template).render(**context)
        except TemplateError as error:
            raise SiteError(f"The template {template} cannot be rendered: {error}.") from error
