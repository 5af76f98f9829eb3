"""Makes the class-data archive of the Spark image, and what its class path begins with.

    spark_class_data.py jar SPARK_HOME              the jar that names all others
    spark_class_data.py dump CLASSES SPARK_HOME     the archive of the classes on a packed list
    spark_class_data.py pack CLASSES LIST...        packs what JVMs wrote as their lists

What a user gains: runs start sooner. A JVM of Spark that starts, makes three Iceberg tables and
reads them took 7.5 to 8.6 CPU seconds in place of 12.5 to 16.8, for 251 MB of the image
(docs/images.md).

What the JVMs of driver and executor load at every start lies in the archive as they need it, read
and checked. They map it only if their class path begins as it did here and the jars are as they
were; so it begins with one jar without contents, whose manifest names all others in order: a `*`
would mean the order of a directory, which is another on every file system. The list is stored, not
made in the build, so that the same build gives the same archive: one that is out of date costs
time at the start and nothing else. Runs while the image is built, with nothing but Python.
"""

import ctypes
import gzip
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

ARCHIVE = "classes.jsa"
CLASS_PATH = "jars.jar"
"""Both in SPARK_HOME, where driver and executors name them (icdc_spark.container.commands)."""

_LINE_BYTES = 70
"""The specification of jars allows 72, with a space before what continues a line."""
_OPTIONS = (
    # Threads of compilers and collectors would make the archive another one at each build.
    "-Xint",
    "-XX:+UseSerialGC",
    "-Xms1g",
    "-Xmx1g",
    # A list may name more than there is: classes of another processor, or of an older version.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)
_ADDRESSES_NOT_RANDOM = 0x0040000
"""For personality(2) of Linux: an archive holds addresses. Where a build may not call that, as by
the usual filters of seccomp, the archive is none the worse, only another one at each build."""
_DATE = 315532800
"""1980-01-01, as all files of the image have it."""
_GENERATED = re.compile(r"^#|\$Proxy\d|^jdk/(jfr/internal/handlers|internal/reflect/Generated)")
"""Comments, and classes that no jar has."""


def build_manifest(jars: Sequence[str]) -> bytes:
    """Return a manifest whose class path these addresses are, relative to the jar it is in.

    A line goes on in the next one that begins with a blank, wherever it is cut:

        Class-Path: jars/HikariCP-7.0.2.jar jars/RoaringBitmap-1.5.3.jar jars/
         aircompressor-2.0.3.jar …
    """
    line = f"Class-Path: {' '.join(jars)}"
    parts = [line[at : at + _LINE_BYTES] for at in range(0, len(line), _LINE_BYTES)]
    # With an end of line after the last one, without which Java passes over that line.
    return "\r\n".join(["Manifest-Version: 1.0", "\r\n ".join(parts), "", ""]).encode()


def write_class_path(home: Path) -> None:
    """Write the jar that names the jars of this Spark, in the order of their names."""
    shown = sorted(jar.relative_to(home).as_posix() for jar in (home / "jars").glob("*.jar"))
    # A ZipInfo of its own has the date 1980; a name alone would get the date of the moment.
    with zipfile.ZipFile(home / CLASS_PATH, "w") as made:
        made.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), build_manifest(shown))
    # The archive fits only a jar of this date, which a builder may change at the image's end.
    os.utime(home / CLASS_PATH, (_DATE, _DATE))


def dump(classes: Path, home: Path) -> None:
    """Write the archive; CalledProcessError where Java cannot.

    `classes` is the packed list, `home` SPARK_HOME with the jar of `write_class_path` in it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch, "classes")
        plain.write_bytes(gzip.decompress(classes.read_bytes()))
        command = [
            *(f"{os.environ['JAVA_HOME']}/bin/java", "-Xshare:dump", *_OPTIONS),
            *(f"-XX:SharedClassListFile={plain}", f"-XX:SharedArchiveFile={home / ARCHIVE}"),
            *("-cp", str(home / CLASS_PATH)),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=_remove_chance)


def _remove_chance() -> None:
    """Take chance away from the process to be: an archive has addresses and an order in it."""
    ctypes.CDLL(None).personality(_ADDRESSES_NOT_RANDOM)
    # Threads of Java's own, as it starts, would add their names between those of the main thread.
    # First in, first out on one processor they run where it waits for them, at the same places each
    # time. That takes CAP_SYS_NICE; without it they run at any time, and the archive may differ.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def pack_lists(lists: Iterable[str]) -> bytes:
    """Return one packed list of all that these name, the same whatever their order.

    `lists` are texts that JVMs wrote by -XX:DumpLoadedClassList, of a driver and of executors:

        # NOTE: Do not modify this file.       left out
        java/lang/Object                       once, whichever of them has it
        @lambda-proxy org/a/B run              a lambda of that class
        jdk/proxy1/$Proxy3                     left out: made up while that JVM ran
    """
    lines = {line for text in lists for line in text.splitlines() if not _GENERATED.search(line)}
    # mtime: the file is committed, and the same list must be the same bytes.
    return gzip.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), mtime=0)


def main(arguments: Sequence[str]) -> None:
    """Do what the first argument says; SystemExit for another word than these three."""
    what, first, *rest = arguments
    if what == "jar":
        write_class_path(Path(first))
    elif what == "dump":
        dump(Path(first), Path(rest[0]))
    elif what == "pack":
        texts = [Path(name).read_text(encoding="utf-8") for name in rest]
        Path(first).write_bytes(pack_lists(texts))
    else:
        raise SystemExit(f"{what}: one of jar, dump, pack")


if __name__ == "__main__":
    main(sys.argv[1:])
