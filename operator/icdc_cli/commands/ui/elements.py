"""HTML as a tree, because text in it was written by tenants: names, messages, ids of documents.

A child is an element or text, and text is escaped where the tree becomes a page. Nothing takes
markup as text, so no caller can forget to escape.

    make("td", "a < b", class_="name")    <td class="name">a &lt; b</td>
    make("td", "<script>")                <td>&lt;script&gt;</td>

The style sheet and the script go into a page as they are; they are files of this package, and no
arguments. Must know nothing of pipelines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from icdc_cli import terminal

_VOID = frozenset({"br", "meta"})
"""Elements without an end tag."""

_FOLDER = Path(__file__).parent
STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")
"""What stands in each `style` element."""
SCRIPT = (_FOLDER / "refresh.js").read_text(encoding="utf-8")
"""What stands in each `script` element."""
_RAW = {"style": STYLE, "script": SCRIPT}
"""The content of elements that browsers do not read as HTML, by their tags."""


@dataclass(frozen=True)
class Element:
    """One element. `tag` and the names of attributes are ours, and only the values are foreign."""

    tag: str
    """Its name, such as `td`."""
    attributes: tuple[tuple[str, str], ...]
    """Names and values, unquoted."""
    children: tuple["Child", ...]
    """Elements and texts, unquoted; None is left out."""


Child = Element | str | None
"""None is nothing, so that a part of a page can be left out where it stands."""


def make(tag: str, *children: Child, **attributes: str | int | None) -> Element:
    """Return an element; attributes that are None are left out.

    Their names are written as in Python: class_ is class, aria_label is aria-label.
    """
    named = (
        (name.rstrip("_").replace("_", "-"), str(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Element(tag, tuple(named), children)


def render(child: Child) -> str:
    """Return the markup of an element with all that is in it."""
    return "".join(_render(child))


def render_document(root: Element) -> str:
    """Return the text of a whole page."""
    return f"<!doctype html>\n{render(root)}\n"


def _render(child: Child) -> Iterator[str]:
    if child is None:
        return
    if isinstance(child, str):
        yield _escape(child)
        return
    if child.tag in _RAW:
        yield f"<{child.tag}>{_RAW[child.tag]}</{child.tag}>"
        return
    attributes = "".join(f' {name}="{_escape(value)}"' for name, value in child.attributes)
    yield f"<{child.tag}{attributes}>"
    for below in child.children:
        yield from _render(below)
    if child.tag not in _VOID:
        yield f"</{child.tag}>"


def _escape(text: str) -> str:
    # Characters that no page may hold: controls, and halves of surrogate pairs, which JSON can
    # spell and UTF-8 cannot.
    encodable = text.encode("utf-8", errors="replace").decode("utf-8")
    return escape(terminal.make_printable(encodable))
