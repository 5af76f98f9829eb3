"""HTTP/1.1 messages over asyncio streams: just enough for a proxy that sees every byte."""

import asyncio
import gzip
import json
from dataclasses import dataclass, replace

_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "expect", "host")
)
_BODYLESS_STATUSES = frozenset((204, 304))

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HttpRequest:
    """One request, its body whole and as it came (perhaps compressed)."""

    method: str
    target: str
    headers: Headers
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def get_header(self, name: str) -> str:
        """Return a header's value; empty where it is missing."""
        return _find_value(self.headers, name)

    def decompress(self) -> bytes:
        """Return the body without compression."""
        if self.get_header("content-encoding") == "gzip":
            return gzip.decompress(self.body)
        return self.body

    def replace_text(self, text: bytes) -> "HttpRequest":
        """Return the same request with another, uncompressed body."""
        headers = tuple(h for h in self.headers if h[0].lower() != "content-encoding")
        return replace(self, headers=headers, body=text)


@dataclass(frozen=True)
class Response:
    """One answer, its body whole."""

    status: int
    headers: Headers
    body: bytes

    @classmethod
    def build_json(cls, status: int, value: object, headers: Headers = ()) -> "Response":
        """Return an answer as OpenSearch would give it."""
        kind = ("content-type", "application/json; charset=UTF-8")
        return cls(status, (kind, *headers), json.dumps(value).encode())

    def encode(self, *, head_only: bool = False) -> bytes:
        """Return the bytes on the wire; `head_only` answers a HEAD request."""
        length = _find_value(self.headers, "content-length") if head_only else str(len(self.body))
        lines = [f"HTTP/1.1 {self.status} X"]
        lines += [f"{name}: {value}" for name, value in _drop_hop_by_hop(self.headers)]
        lines += [f"content-length: {length or 0}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + (b"" if head_only else self.body)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    """Return the next request of a connection; IncompleteReadError at its end."""
    first, headers = await _read_head(reader)
    method, target, _ = first.split(" ", 2)
    if _find_value(headers, "expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return HttpRequest(method, target, headers, await _read_body(reader, headers))


async def exchange(host: str, port: int, request: HttpRequest) -> Response:
    """Send a request over a connection of its own; OSError where nobody listens."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    try:
        # As the client gave it: a signature covers it.
        wanted = request.get_header("host") or f"{host}:{port}"
        lines = [f"{request.method} {request.target} HTTP/1.1", f"host: {wanted}"]
        lines += [
            f"{name}: {value}"
            for name, value in _drop_hop_by_hop(request.headers)
            if name.lower() != "accept-encoding"
        ]
        lines += ["connection: close", f"content-length: {len(request.body)}", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + request.body)
        await writer.drain()
        first, headers = await _read_head(reader)
        status = int(first.split(" ", 2)[1])
        empty = request.method == "HEAD" or status in _BODYLESS_STATUSES
        body = b"" if empty else await _read_body(reader, headers)
        return Response(status, headers, body)
    finally:
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, Headers]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, tuple((name.strip(), value.strip()) for name, _, value in pairs)


async def _read_body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    if "chunked" in _find_value(headers, "transfer-encoding").lower():
        return await _read_chunks(reader)
    return await reader.readexactly(int(_find_value(headers, "content-length") or 0))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    chunks: list[bytes] = []
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        chunk = await reader.readexactly(size + 2)
        if size == 0:
            return b"".join(chunks)
        chunks.append(chunk[:-2])


def _drop_hop_by_hop(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0].lower() not in _HOP_BY_HOP)


def _find_value(headers: Headers, name: str) -> str:
    return next((value for key, value in headers if key.lower() == name), "")
