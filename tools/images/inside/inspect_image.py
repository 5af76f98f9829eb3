"""Runs inside an image, and prints as JSON what is there: `python - MODULE… < inspect_image.py`.

From inside and as the image's own user, because what a user can write, read or import is what the
kernel and Python say there; the files of its layers tell only what was meant. What a user gains:
an image that starts as any user id, and in which nothing is writable, is shown and not believed.

Needs nothing but Python, and judges nothing. inspect_spark is there as part of the same text.
"""

import importlib
import json
import os
import pkgutil
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import inspect_spark

# Refused by image_checks.py, and listed here, where they can be looked for.
PROGRAMS = ("cc", "g++", "gcc", "javac", "make", "mvn", "pip", "pip3")
LEFT_BEHIND = (
    "/build",
    "/root/.cache",
    "/root/.m2",
    "/var/cache/apt",
    "/var/lib/apt/lists",
    "/var/log",
)
# Mounted when a container starts, or made for all users to write, as /tmp.
NOT_OURS = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", "/etc/hosts", "/etc/resolv.conf")
PRIVILEGES = stat.S_ISUID | stat.S_ISGID
NEEDED = (
    "/bin",
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/certs",
    "/lib",
    "/opt",
    "/usr",
)
"""What programs, Python, Java and Spark read, where the image has it."""


def list_paths() -> Iterator[Path]:
    """Yield each file and folder of the image itself, as far as the user may enter what it is in.

    Links are yielded and not followed, as os.walk does; a folder is yielded before what is in it.
    """
    for folder, folders, files in os.walk("/"):
        if os.access(folder, os.X_OK):
            start = folder.rstrip("/")
            # In place: os.walk leaves out what is removed from its list.
            folders[:] = [name for name in folders if f"{start}/{name}" not in NOT_OURS]
            yield from (Path(folder, name) for name in (*folders, *files))


def list_closed() -> Iterator[str]:
    """Yield files and folders below NEEDED, and folders on the way there, that some cannot open.

    A platform may choose any user id, with the group 0 of root (OpenShift does): both the group's
    bits and those of others must allow it, reading for files, entering as well for folders. Asking
    with os.access would say what user 185 can: for it the last three bits count alone.

        folder  755    r-x for group and others    fine
        folder  700    --- for both                yielded: BuildKit once made such a folder
        file    640    r-- for group alone         yielded
    """
    for start in NEEDED:
        paths = [Path(start), *Path(start).parents]
        for folder, folders, files in os.walk(start):
            paths += [Path(folder, name) for name in (*folders, *files)]
        for path in paths:
            # What lies in a folder that cannot be entered is not named beside it.
            with suppress(FileNotFoundError, PermissionError):
                mode = path.lstat().st_mode
                wanted = 0o055 if stat.S_ISDIR(mode) else 0o044
                if mode & wanted != wanted and not stat.S_ISLNK(mode):
                    yield f"{path} (mode {stat.S_IMODE(mode):o})"


def read_debian_packages() -> dict[str, str]:
    """Return versions of what dpkg has installed, and of packages of which parts are here, by name.

    Read as text, though image_sbom.py has the same: that module is not in the image.
    """
    dpkg = Path("/var/lib/dpkg")
    files = [dpkg / "status", *dpkg.glob("status.d/*")]
    text = "\n\n".join(file.read_text(encoding="utf-8").strip() for file in files)
    versions = {}
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
        if fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields["Version"]
    return versions


def read_bills() -> dict[str, object]:
    """Return the bills of materials by file name."""
    files = Path("/usr/share/doc/iceberg-cdc-operator").glob("*.json")
    return {file.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


def find_import_error(name: str) -> str | None:
    """Return why a module cannot be imported, None if it can.

    Imported and not only looked for: what is missing may be a library that it is linked with.
    """
    try:
        importlib.import_module(name)
    except ImportError as error:
        return f"{name}: {error}"
    return None


def list_modules(name: str) -> list[str]:
    """Return the module, or with a star at the end the package and all in it but programs."""
    if not name.endswith(".*"):
        return [name]
    package = importlib.import_module(name[:-2])
    # A package below that cannot be imported is listed all the same, and find_import_error says
    # why: with a handler that does nothing no error ends the walk. Importing a `__main__` would run
    # it.
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.", lambda _: None)
    return [module.name for module in modules if not module.name.endswith(".__main__")]


def is_dated(bytecode: Path) -> bool:
    """True if Python compares it with its source by date, which no layer keeps (PEP 552).

    Bytes 0 to 3 are the version of the bytecode, 4 to 7 the flags, 8 to 15 date and size or a hash.
    Files of layers get another date than they had when they were compiled, so that bytecode by date
    is never right, and the user cannot write a better one.
    """
    # Flags of PEP 552, little-endian: 1 is "by hash, never compared"; 0 is "by date".
    return bytecode.read_bytes()[4:8] != b"\1\0\0\0"


def list_class_data_problems() -> list[str]:
    """Return what Java prints about an archive of Spark's classes that does not fit, if so.

    A JVM goes on without an archive that does not fit, and says nothing: each start then takes
    several CPU seconds more, and nothing fails. -Xshare:on makes it an error.
    """
    home = Path("/opt/spark")
    if not home.exists():
        return []
    command = [
        *(
            f"{os.environ['JAVA_HOME']}/bin/java",
            "-Xshare:on",
            f"-XX:SharedArchiveFile={home}/classes.jsa",
        ),
        # As driver and executors have it: it must begin as it did when the archive was made.
        *("-cp", f"{home}/jars.jar:{home}/conf:{home}/jars/*", "-version"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # -version ends "(build …, mixed mode, sharing)" where the archive is mapped.
    said = done.stdout + done.stderr
    return [] if done.returncode == 0 and "sharing" in said else [said]


def main() -> None:
    """Print everything as JSON."""
    own = [path for path in list_paths() if not path.is_symlink() and str(path) not in NOT_OURS]
    files = [path for path in own if path.is_file()]
    bytecode = [path for path in files if path.suffix == ".pyc"]
    packages = {
        package.name.lower().replace("_", "-"): package for package in metadata.distributions()
    }
    named = [module for name in sys.argv[1:] for module in list_modules(name)]
    contents = {
        "user": [os.getuid(), os.getgid()],
        "folder": str(Path.cwd()),
        "megabytes": sum(path.stat().st_size for path in files) / 1e6,
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "left": [path for path in files if str(path).startswith(LEFT_BEHIND)],
        "privileged": [path for path in files if path.lstat().st_mode & PRIVILEGES],
        "writable": [path for path in own if os.access(path, os.W_OK)],
        "closed": sorted(set(list_closed())),
        "dated_bytecode": [path for path in bytecode if is_dated(path)],
        "packages": {name: package.version for name, package in packages.items()},
        "debian": read_debian_packages(),
        "bills": read_bills(),
        "jars": sorted(path.name for path in Path("/opt/spark/jars").glob("*.jar")),
        "scripts": [path for path in Path("/opt").glob("*.sh") if os.access(path, os.X_OK)],
        "applications": [
            path for path in Path("/opt").glob("*/main.py") if os.access(path, os.R_OK)
        ],
        "class_data": list_class_data_problems(),
        "imports": [why for why in map(find_import_error, named) if why],
        "trials": inspect_spark.list_failures() if Path("/opt/spark").exists() else [],
    }
    # Paths are most of what is no JSON yet.
    sys.stdout.write(json.dumps(contents, default=str))


# Without asking for `__main__`: nothing imports this text, standard input is how it runs.
main()
