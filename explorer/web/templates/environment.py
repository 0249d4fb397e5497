"""What every template has: where static files lie, and which theme the reader has chosen."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, select_autoescape
from markupsafe import Markup

from explorer.checkout import CHECKOUT
from explorer.compiler.kept import ENTRY_BYTES, ByContent
from explorer.web import limits


class _Environment(Environment):
    """Jinja's, whose templates have the globals that there are when they are loaded, in one dictionary: in two, of
    which one goes before the other, they are looked for at each of the thirty imports of an answer."""

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The globals of a template."""
        return {**self.globals, **(d or {})}


TEMPLATES = Jinja2Templates(
    env=_Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # or each answer asks for the times of thirty files
    )
)


def drawn(request: Request, name: str, context: Mapping[str, Any], status: int = HTTPStatus.OK) -> HTMLResponse:
    """A whole page of that template, with the reader's theme and the nonce of its scripts."""
    shared = {"nonce": getattr(request.state, "csp_nonce", ""), "theme": theme(request)}
    return TEMPLATES.TemplateResponse(request, name, {**shared, **context}, status_code=status)


def theme(request: Request) -> str:
    """The theme that the reader has chosen, or none."""
    chosen = request.cookies.get("theme", "")
    return chosen if chosen in ("light", "dark") else ""


def _static(path: str) -> str:
    """A static file's URL, which changes with the file: browsers may keep what it answers for good."""
    file = CHECKOUT / "static" / path
    return f"/static/{path}?v={file.stat().st_mtime_ns:x}" if file.exists() else f"/static/{path}"


def _inline(path: str) -> Markup:
    """A static file's text, to stand in the page itself; "" where it is not built."""
    file = CHECKOUT / "static" / path
    return _text_of(file, file.stat().st_mtime_ns) if file.exists() else Markup("")


@lru_cache(maxsize=4)
def _text_of(file: Path, changed: int) -> Markup:
    """Without the comment that says where its map lies, which is beside the file alone."""
    return Markup(file.read_text(encoding="utf-8").partition("/*# sourceMappingURL=")[0])


_KEPT: ByContent[Markup] = ByContent(limits.KEPT_MARKUP_BYTES, lambda made: ENTRY_BYTES + 2 * len(made))
"""By a macro of `kept.html` and its arguments. These are in the markup, so that has twice its room."""


def _once(macro: str, *arguments: Hashable) -> Markup:
    """What a macro of `kept.html` makes of its arguments, once: an edit changes few of a page's controls and counts.
    Each argument of a macro has one type, or `1` and `True` would be the same."""
    return _KEPT.made(
        (macro, arguments), lambda: getattr(TEMPLATES.env.get_template("kept.html").module, macro)(*arguments)
    )


TEMPLATES.env.globals.update(static=_static, inline=_inline, once=_once)
