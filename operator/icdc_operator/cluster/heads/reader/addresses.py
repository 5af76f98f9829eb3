"""Decides which addresses a reader of catalogs may connect to, and holds this process to it.

The address is checked that is connected to, so a name that resolves to another one in between
(DNS rebinding) gains nothing. That holds for all that uses Python's sockets; libpq is given
addresses that were checked before.
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
    ipaddress.ip_network(each)
    for each in (
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
"""Networks that no catalog is in, and where an answer may be worth something."""

_OF_ADDRESSES = re.compile(r"[0-9.*?]+|[0-9a-f.:*?]*:[0-9a-f.:*?]*")
"""Patterns that never mean a name: whoever owns `evil.example` owns `10.evil.example` too."""

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
    """The process is held back from what it was about to do; the message is for a person."""


class Addresses:
    """What `settings` and the addresses of the API server leave."""

    def __init__(self, settings: ReaderSettings, api_server: Iterable[str] = ()) -> None:
        self._settings = settings
        self._api_server = frozenset(api_server)

    def refuse(self, api_server: Iterable[str]) -> None:
        """Add addresses of the API server that are known only later."""
        self._api_server |= {str(_plain(address)) for address in api_server}

    def allows(self, host: str, address: str) -> bool:
        """Tell whether `address`, to which the name `host` leads, may be connected to."""
        try:
            plain = _plain(address)
        except ValueError:
            return False
        name = host.lower().rstrip(".")
        if any(_matches(pattern, name, plain) for pattern in self._settings.allow_hosts):
            return True
        if any(_matches(pattern, name, plain) for pattern in self._settings.deny_hosts):
            return False
        known = any(plain in network for network in REFUSED)
        return not known and str(plain) not in self._api_server

    def names(self, host: str) -> bool:
        """Tell whether `host` is allowed by its name, whatever it leads to."""
        name = host.lower().rstrip(".")
        return any(
            fnmatch.fnmatchcase(name, pattern.lower())
            for pattern in self._settings.allow_hosts
            if pattern == "*" or not _OF_ADDRESSES.fullmatch(pattern.lower())
        )


class Guard:
    """Holds this process to `addresses` from `install` on; nothing takes that back."""

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
        """Return the allowed addresses of a name; raises Refused for none, OSError likewise."""
        found = self._getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def check_beyond_proxy(self, host: str, port: int) -> None:
        """Raise Refused where a proxy would be asked for an address that is none to connect to.

        A name that only the proxy can look up has to be allowed as such.
        """
        try:
            self.resolve(host, port)
        except OSError as error:
            if not self._addresses.names(host):
                raise AccessRefused(WHY) from error

    def _getaddrinfo(self, host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        found = self._look_up(host, *args, **options)
        allowed = [each for each in found if self._addresses.allows(name, str(each[4][0]))]
        if found and not allowed:
            raise AccessRefused(WHY)
        self._permitted.update(str(each[4][0]) for each in allowed)
        return allowed

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            # Of a socket of this host the address is a path.
            target = str(address[0]) if isinstance(address, tuple) else ""
            if target not in self._permitted and not self._addresses.allows(target, target):
                raise AccessRefused(WHY)
        elif event in _NEVER:
            raise AccessRefused(f"a reader of catalogs does not do {event}")


def _plain(address: str) -> IpAddress:
    """Without a scope, and as IPv4 where IPv6 only wraps it. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found in _TRANSLATED:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        return found.ipv4_mapped or found.sixtofour or found
    return found


def _matches(pattern: str, name: str, address: IpAddress) -> bool:
    try:
        return address in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        wanted = pattern.lower()
        found = str(address) if _OF_ADDRESSES.fullmatch(wanted) else name
        return fnmatch.fnmatchcase(found, wanted)
