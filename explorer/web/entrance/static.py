"""Static files: as they were packed when the page was built, and kept by browsers where their address says which they
are."""

from __future__ import annotations

import asyncio
import mimetypes
import stat

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PACKINGS = {"br": ".br", "gzip": ".gz"}
"""The codings that files lie beside themselves in, the shortest first, and how their names end."""


class PackedFiles(StaticFiles):
    """Static files, in a coding that the client takes where they lie there in one.

    They are kept for good under an address with a query (`?v=...`), else asked about each time (304)."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await self._packed(path, scope) or await super().get_response(path, scope)
        versioned = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if versioned else "no-cache"
        return response

    async def _packed(self, path: str, scope: Scope) -> Response | None:
        taken = {each.strip().lower() for each in Headers(scope=scope).get("accept-encoding", "").split(",")}
        for coding in [each for each in PACKINGS if each in taken] if scope["method"] in ("GET", "HEAD") else ():
            file, found = await asyncio.to_thread(self.lookup_path, path + PACKINGS[coding])
            if found is None or not stat.S_ISREG(found.st_mode):
                continue
            response = self.file_response(file, found, scope)
            response.headers["Content-Type"] = (
                f"{mimetypes.guess_type(path)[0] or 'application/octet-stream'}; charset=utf-8"
            )
            response.headers["Content-Encoding"] = coding
            response.headers["Vary"] = "Accept-Encoding"
            return response
        return None
