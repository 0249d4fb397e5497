"""What every template has: where static files lie, and which theme the reader has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates

from explorer.checkout import CHECKOUT

TEMPLATES = Jinja2Templates(directory=Path(__file__).parent)
TEMPLATES.env.trim_blocks = True
TEMPLATES.env.lstrip_blocks = True
TEMPLATES.env.auto_reload = False  # or each answer asks for the times of thirty files


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


TEMPLATES.env.globals.update(static=_static)
