"""Entry of `icdc-operator`: reads the options, runs the process, turns its end into an exit code.

The one place, besides a worker, where an error that nobody foresaw is caught.

0  asked to end, and ended in order
1  an error, or the lease was lost: start it again
2  bad usage
"""

import asyncio
import logging
from collections.abc import Sequence

from icdc_api.errors import BadSpec, IcdcError
from icdc_operator.cluster import logs, options, process

_log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the operator until SIGTERM or SIGINT; the exit code."""
    given = options.parse(argv)
    logs.set_up(given.log_format, given.log_level)
    try:
        asyncio.run(process.run(given))
    except KeyboardInterrupt:
        return 0  # before the process listened to signals itself
    except IcdcError as error:
        _log.error("%s", error)
        return 2 if isinstance(error, BadSpec) else 1
    except Exception:  # noqa: BLE001 - the outermost frame
        _log.exception("internal error; please report it")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
