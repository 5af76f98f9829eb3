"""What a spec may say but nobody should want: no error, so it is told and nothing is refused."""

import re
from collections.abc import Iterator

from icdc_api.spec import PipelineSpec

_IN_THE_CLEAR = re.compile(r"http://(?!(localhost|127\.0\.0\.1|\[::1\])([:/]|$))")
"""Not encrypted, and not on loopback."""


def find_cautions(spec: PipelineSpec) -> Iterator[str]:
    """Yield a sentence for each: the field, what happens, what to do."""
    sink = spec.sink.opensearch
    if sink.credentials_from is None or sink.embedded:
        return
    plain = [host for host in sink.hosts if _IN_THE_CLEAR.match(host)]
    if plain:
        yield (
            f"spec.sink.opensearch.hosts: the credentials of {plain[0]} are sent unencrypted, and "
            "whoever is on the way can read them; use https"
        )
