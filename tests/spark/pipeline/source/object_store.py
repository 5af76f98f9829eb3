"""An object store on loopback that misbehaves as S3 does: the border at which reads are tested.

It keeps objects in memory and speaks as much of S3 as Iceberg's client uses on small files.
"""

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs

from icdc_testing.network.serving import serve_beside

_ACCESS_KEY = re.compile(r"Credential=([^/]+)/")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
"""The only form of a range that readers of Parquet and Avro files send."""


class Harm(StrEnum):
    """What becomes of a read."""

    SLOW_DOWN = "SlowDown"
    """503, as a store answers that wants fewer requests."""
    CUT = "Cut"
    """The connection ends half-way."""
    SHORT = "Short"
    """The answer is complete and has half of the bytes that were asked for."""


@dataclass
class Fault:
    """Harms the next `times` reads of objects whose keys end with `suffix`."""

    harm: Harm
    suffix: str
    times: int
    harmed: int = 0


class ObjectRead(NamedTuple):
    """One request for an object."""

    key: str
    """The object."""
    access_key: str
    """The id of the key that signed it."""
    status: int
    """The answer."""


class ObjectStore:
    """Objects by `bucket/key`, what was read of them, and what harms the next reads."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: list[ObjectRead] = []
        self.url = ""
        self.ends_connections = False
        """Whether each answer is the last of its connection: the next one needs the name again."""
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._left: dict[str, int] = {}

    def harm(self, harm: Harm, suffix: str = ".parquet", *, times: int) -> Fault:
        """Add a fault, which is used up after so many reads."""
        fault = Fault(harm, suffix, times)
        with self._lock:
            self._faults = [fault]
        return fault

    def heal(self) -> None:
        """Harm nothing any more."""
        with self._lock:
            self._faults = []

    def expire(self, access_key: str, *, after: int = 0) -> None:
        """Let a key read so many Parquet files more, and then no object at all."""
        with self._lock:
            self._left[access_key] = after

    def find_harm(self, key: str) -> Harm | None:
        """Return what becomes of this read."""
        with self._lock:
            for fault in self._faults:
                if key.endswith(fault.suffix) and fault.harmed < fault.times:
                    fault.harmed += 1
                    return fault.harm
        return None

    def is_expired(self, access_key: str, key: str) -> bool:
        """Return whether the key is of no use any more; count this read where it still is."""
        with self._lock:
            left = self._left.get(access_key)
            if left and key.endswith(".parquet"):
                self._left[access_key] = left - 1
            return left == 0


def _build_error(code: str, message: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


class _ObjectHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectStore

    def do_PUT(self) -> None:
        body = self._receive()
        # Parts of an upload come in order, and the last one is followed by a POST.
        if "uploadId" in self._query:
            body = self.store.objects.get(self._key, b"") + body
        self.store.objects[self._key] = body
        self._answer(200, b"", {"ETag": '"1"'})

    def do_POST(self) -> None:
        self._receive()
        kind = "Initiate" if "uploads" in self._query else "Complete"
        text = f"<{kind}MultipartUploadResult><UploadId>1</UploadId></{kind}MultipartUploadResult>"
        self._answer(200, text.encode(), {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.store.objects.pop(self._key, None)
        self._answer(204, b"", {})

    def do_GET(self) -> None:
        key, store = self._key, self.store
        if "list-type" in self._query:
            # Asked by a writer that wants to know whether a path is a folder, which none is.
            self._answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>", {})
            return
        status, body, headers = self._read(key)
        store.reads.append(ObjectRead(key, self._access_key, status))
        harm = store.find_harm(key) if status < 300 and self.command == "GET" else None
        if harm is Harm.SLOW_DOWN:
            status, body = 503, _build_error("SlowDown", "Please reduce your request rate.")
        if harm is Harm.SHORT:
            body = body[: len(body) // 2]
        self._answer(status, body, headers, is_cut=harm is Harm.CUT)

    @property
    def _key(self) -> str:
        return self.path.partition("?")[0].lstrip("/")

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(self.path.partition("?")[2], keep_blank_values=True)

    @property
    def _access_key(self) -> str:
        signed = _ACCESS_KEY.search(self.headers.get("Authorization") or "")
        return signed.group(1) if signed else ""

    def _receive(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = _join_chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # Inside of what HTTP cuts into chunks, clients of S3 cut into chunks with signatures.
        is_signed = self.headers.get("Content-Encoding") == "aws-chunked"
        return _join_chunks(io.BytesIO(body)) if is_signed else body

    def _read(self, key: str) -> tuple[int, bytes, dict[str, str]]:
        body = self.store.objects.get(key)
        if self.store.is_expired(self._access_key, key):
            return 400, _build_error("ExpiredToken", "The provided token has expired."), {}
        if body is None:
            return 404, _build_error("NoSuchKey", "The specified key does not exist."), {}
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        if asked is None:
            return 200, body, {"ETag": '"1"'}
        begin = int(asked.group(1))
        end = min(int(asked.group(2) or len(body) - 1), len(body) - 1)
        of = {"ETag": '"1"', "Content-Range": f"bytes {begin}-{end}/{len(body)}"}
        return 206, body[begin : end + 1], of

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        is_cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if self.store.ends_connections:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
        if is_cut:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _join_chunks(stream: io.BufferedIOBase) -> bytes:
    """Return the content of chunks: each has its size in a line before it, the last one none."""
    content = b""
    while size := int(stream.readline().split(b";")[0], 16):
        content += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        """A trailer, such as a checksum."""
    return content


@contextmanager
def serve() -> Iterator[ObjectStore]:
    """Serve one on loopback in the block."""
    store = ObjectStore()
    handler = type("Handler", (_ObjectHandler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    store.url = f"http://127.0.0.1:{server.server_port}"
    with serve_beside(server):
        yield store
