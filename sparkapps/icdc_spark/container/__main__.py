"""Entry of the image: becomes the driver or the executor that the arguments name."""

import os
import sys

from icdc_spark.container import commands, scratch, trust_store, user_name


def main() -> int:
    """Replace this process, which has scratch directories of its own from then on.

    Return an exit code where that is not possible.
    """
    try:
        command = commands.build_command(sys.argv[1:], os.environ)
        environment = user_name.add_name(scratch.claim(command.environment))
        arguments = trust_store.add_option(command.arguments, environment)
        os.execvpe(arguments[0], arguments, environment)
    except commands.MisuseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {command.arguments[0]} cannot be started: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main())
