"""Decide which addresses a reader of catalogs may connect to, and hold this process to it.

Part 2 of `reader`: resolve. The address itself is checked at the moment of the connection, so a
name that resolves to another address in between (DNS rebinding) gains nothing. The check covers
all of Python's sockets. libpq connects by itself, and gets addresses that were checked before.

    allowHosts   denyHosts   address                  result
    -            -           10.1.2.3                 allowed: catalogs inside the cluster
    -            -           169.254.169.254          refused: in REFUSED
    -            -           the API server's         refused
    *.corp       *           10.1.2.3 (lake.corp)     allowed: allowHosts is checked first
    -            10.0.0.0/8  10.1.2.3                 refused
"""

import fnmatch
import ipaddress
import re
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from icdc_operator.cluster.heads.settings import ReaderSettings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local: metadata and credentials of AWS, Azure, Google
        "100.100.100.200/32",  # metadata of Alibaba
        "168.63.129.16/32",  # the host of a machine of Azure
        "192.0.0.192/32",  # metadata of Oracle
        "224.0.0.0/4",  # multicast
        "255.255.255.255/32",
        "::/96",  # this host, loopback, and what once wrapped IPv4
        "::ffff:0:0:0/96",  # IPv4 in the words of a translator
        "64:ff9b:1::/48",  # IPv4 behind a translator of this network
        "fd00:ec2::/32",  # metadata and credentials of AWS
        "fd20:ce::254/128",  # metadata of Google
        "fe80::/10",
        "ff00::/8",
    )
)
"""Networks without catalogs, where an answer may hold credentials."""

_OF_ADDRESSES = re.compile(r"[0-9.*?]+|[0-9a-f.:*?]*:[0-9a-f.:*?]*")
"""Patterns that mean addresses, never names: anybody can own a name such as `10.evil.example`."""

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_STARTS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}
)
_SENDS = frozenset({"socket.bind", "socket.sendto", "socket.sendmsg"})
_CALLS_C = frozenset({"ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function"})
_NEVER = _STARTS | _SENDS | _CALLS_C

WHY = (
    "the operator does not connect to the address of this catalog or of its files "
    "(chart: heads.allowHosts)"
)


class AccessRefused(BaseException):
    """The process is not allowed to do this; the message is for a person.

    A BaseException, so that no `except Exception` of a library swallows it and goes on.
    """


class Addresses:
    """The rule: the settings of the chart, then REFUSED and the API server's own addresses."""

    def __init__(self, settings: ReaderSettings, api_server: Iterable[str] = ()) -> None:
        self._settings = settings
        self._api_server = frozenset(api_server)

    def refuse(self, api_server: Iterable[str]) -> None:
        """Add addresses of the API server that are known only later."""
        self._api_server |= {str(_parse_address(address)) for address in api_server}

    def allows(self, host: str, address: str) -> bool:
        """Return whether `address`, which the name `host` resolved to, may be connected to."""
        try:
            plain = _parse_address(address)
        except ValueError:
            return False
        name = host.lower().rstrip(".")
        if any(_matches(pattern, name, plain) for pattern in self._settings.allow_hosts):
            return True
        if any(_matches(pattern, name, plain) for pattern in self._settings.deny_hosts):
            return False
        refused = any(plain in network for network in REFUSED)
        return not refused and str(plain) not in self._api_server

    def has_name(self, host: str) -> bool:
        """Return whether `allowHosts` has the name `host`, whatever it resolves to."""
        name = host.lower().rstrip(".")
        return any(
            fnmatch.fnmatchcase(name, pattern.lower())
            for pattern in self._settings.allow_hosts
            if pattern == "*" or not _OF_ADDRESSES.fullmatch(pattern.lower())
        )


class AddressGuard:
    """Hold this process to `addresses` from `install` on. Python cannot remove an audit hook."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._look_up = socket.getaddrinfo
        self._permitted: set[str] = set()

    def install(self) -> None:
        """Check names when they are looked up, and addresses when they are connected to."""
        socket.getaddrinfo = self._getaddrinfo
        sys.addaudithook(self._audit)

    def refuse(self, api_server: Iterable[str]) -> None:
        """See `Addresses.refuse`. Raises ValueError for text that is no address."""
        self._addresses.refuse(api_server)

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the allowed addresses of a name. Raises AccessRefused if none is, and OSError."""
        entries = self._getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def check_beyond_proxy(self, host: str, port: int) -> None:
        """Raise AccessRefused for a host that this process may not connect to directly.

        A name that only the proxy can look up has to be in `allowHosts`.
        """
        try:
            self.resolve(host, port)
        except OSError as error:
            if not self._addresses.has_name(host):
                raise AccessRefused(WHY) from error

    def _getaddrinfo(self, host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        entries = self._look_up(host, *args, **options)
        allowed = [entry for entry in entries if self._addresses.allows(name, str(entry[4][0]))]
        if entries and not allowed:
            raise AccessRefused(WHY)
        # `_audit` sees the address alone: one that is allowed by its name is remembered here.
        self._permitted.update(str(entry[4][0]) for entry in allowed)
        return allowed

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            # For AF_UNIX the address is a path, which is never in `_permitted`.
            target = str(address[0]) if isinstance(address, tuple) else ""
            if target not in self._permitted and not self._addresses.allows(target, target):
                raise AccessRefused(WHY)
        elif event in _NEVER:
            raise AccessRefused(f"a reader of catalogs is not allowed to do {event}")


def _parse_address(address: str) -> IpAddress:
    """Parse an address without its scope, as IPv4 where IPv6 only wraps it. Raises ValueError.

    Without this, ::ffff:127.0.0.1 or 64:ff9b::7f00:1 (NAT64) would pass as addresses of nobody.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed in _TRANSLATED:
            return ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        return parsed.ipv4_mapped or parsed.sixtofour or parsed
    return parsed


def _matches(pattern: str, name: str, address: IpAddress) -> bool:
    try:
        return address in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        wanted = pattern.lower()
        subject = str(address) if _OF_ADDRESSES.fullmatch(wanted) else name
        return fnmatch.fnmatchcase(subject, wanted)
