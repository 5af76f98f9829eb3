"""Entry of the image: becomes the driver or the executor that the arguments name."""

import os
import sys

from icdc_spark.container import commands


def main() -> int:
    """Replace this process; return an exit code where that is not possible."""
    try:
        command = commands.command(sys.argv[1:], os.environ)
        os.execvpe(command.arguments[0], command.arguments, command.environment)
    except commands.MisuseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {command.arguments[0]} cannot be started: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main())
