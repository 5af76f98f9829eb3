"""The committed list of the jars that local runs use: which files, from where, with which sums.

Why not let Maven resolve versions at each run: a repository may serve another file under an old
version, or a mirror a wrong one, and local runs would differ from host to host. What is in the lock
was resolved once, reviewed, and is the same everywhere.

    spark org.xerial:sqlite-jdbc:3.50.3.0 sqlite-jdbc-3.50.3.0.jar 9c2e…(64 digits)
    set   coordinates, for Maven          file, in the cache       sha256, of the file

What a user gains: a local run has the jars that were tested, whatever the repository serves today.
A text file with one jar per line (`set coordinates file sha256`), so that a change can be
reviewed. Pure: knows neither Maven nor the cache.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources

from icdc_api.errors import Submission

LOCK_NAME = "jars.lock"
_HEADER = """\
# Jars of local runs: set, groupId:artifactId:version[:classifier], file, sha256.
# Regenerate: python -m icdc_cli.embedded.jars lock
"""


@dataclass(frozen=True, order=True)
class LockedJar:
    """One jar of a set, as one line of the lock has it."""

    coordinates: str
    """group:artifact:version, with :classifier behind it where the jar has one."""
    file: str
    """File name, under which the jar lies in the cache."""
    sha256: str
    """Checksum of the file, 64 hexadecimal digits."""


@dataclass(frozen=True)
class JarSet:
    """All jars that belong on one class path."""

    name: str
    """First word of its lines, such as `spark` or `opensearch-3.8.0`."""
    jars: tuple[LockedJar, ...]
    """In the order of the lock, which is that of the class path."""

    @property
    def key(self) -> str:
        """A folder name that changes with any of the jars, and only then."""
        # Without coordinates: the same files from elsewhere are the same set. Sorted, as the order
        # of lines says nothing about what is in the folder.
        text = "\n".join(f"{jar.file} {jar.sha256}" for jar in sorted(self.jars))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def load() -> dict[str, JarSet]:
    """Read the lock in this package; return its sets by name."""
    file = resources.files("icdc_cli.embedded").joinpath(LOCK_NAME)
    return parse(file.read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, JarSet]:
    """Parse the text of a lock into its sets; Submission names a line that is none of a lock."""
    sets: dict[str, list[LockedJar]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        # Checked though it is generated: a merge by hand may have torn it, and a line without its
        # sum must not become a jar that nobody checks.
        if len(fields) != 4 or fields[1].count(":") not in (2, 3) or len(fields[3]) != 64:
            raise Submission(
                f"{LOCK_NAME} line {number} is not 'set group:artifact:version file sha256'. "
                "The file is generated: restore it, or make it anew."
            )
        sets.setdefault(fields[0], []).append(LockedJar(*fields[1:]))
    return {name: JarSet(name, tuple(jars)) for name, jars in sets.items()}


def render(sets: dict[str, JarSet]) -> str:
    """Return the lock's text of the sets, in a stable order."""
    lines = [
        f"{name} {jar.coordinates} {jar.file} {jar.sha256}\n"
        for name in sorted(sets)
        for jar in sorted(sets[name].jars)
    ]
    return _HEADER + "".join(lines)
