"""Run `icdc-operator`: read the options, run the process, turn its end into an exit code.

One of the places that catch everything, one for each root of a process or a thread
(`tests/unit/tools/test_broad_excepts.py` lists them).

0  asked to end, and ended in order
1  an error, or the lease was lost: start it again
2  bad usage
"""

import asyncio
import logging
from collections.abc import Sequence

from icdc_api.errors import BadSpec, IcdcError
from icdc_operator.cluster import logs, operator_process, options

_log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the operator until SIGTERM or SIGINT; return the exit code."""
    given = options.parse(argv)
    logs.set_up(given.log_format, given.log_level)
    try:
        asyncio.run(operator_process.run(given))
    except KeyboardInterrupt:
        # SIGINT before `operator_process.run` took the signals: an end in order as well.
        return 0
    except IcdcError as error:
        # One line without a stack: the message says what to do. The kubelet restarts the pod, also
        # after 2, until somebody corrects the flags.
        _log.error("%s", error)
        return 2 if isinstance(error, BadSpec) else 1
    except Exception:  # noqa: BLE001 - the root of a process
        _log.exception("internal error; please report it")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
