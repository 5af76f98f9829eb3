"""Signs a release with the releaser's key: the checksums of its files, and what a registry has.

By cosign from PATH, because admission controllers verify its signatures. With a key and not with a
login: nothing is sent to a public log, so a release in a private registry stays private. The key is
a file or the address of a key in a key store. Nothing here can ask a person: a file's password is
COSIGN_PASSWORD, and a key store must let the caller sign by what is configured, such as a role.

    SHA256SUMS             SHA256SUMS.sigstore.json beside it, which covers every other file
    an image, a chart      in the registry, beside what is signed, by its digest
"""

import os
from pathlib import Path

from icdc_api.errors import BadSpec
from icdc_cli.embedded import programs

_PASSWORD = "COSIGN_PASSWORD"
"""Where cosign reads the password of a key in a file."""
_SECONDS = 600
"""For one signature: a bound for a key store or a registry that does not answer."""
# The public log would publish the names of a private registry's images.
_UNLOGGED = ("--use-signing-config=false", "--tlog-upload=false")


def check_key(key: str) -> None:
    """Raise BadSpec unless the key is an address, or a file whose password is set."""
    if "://" in key:
        return
    if not Path(key).is_file():
        raise BadSpec(
            f"SIGN_KEY={key} is neither a file nor an address such as awskms://…: "
            "`cosign generate-key-pair` makes cosign.key and cosign.pub."
        )
    if _PASSWORD not in os.environ:
        raise BadSpec(
            f"{_PASSWORD} is not set, and nobody is asked for the password of SIGN_KEY={key}: "
            f'export it, or {_PASSWORD}="" for a key without one.'
        )


def sign_file(path: Path, key: str) -> Path:
    """Write the signature of the file beside it; return its path. Submission where it fails."""
    signature = path.with_name(f"{path.name}.sigstore.json")
    _sign("sign-blob", "--key", key, *_UNLOGGED, "--bundle", str(signature), str(path))
    return signature


def sign_reference(reference: str, key: str, *, plain_http: bool) -> None:
    """Sign what the registry has under NAME@DIGEST. Submission where it fails."""
    insecure = ["--allow-http-registry"] if plain_http else []
    _sign("sign", "--key", key, *_UNLOGGED, *insecure, reference)


def _sign(command: str, *arguments: str) -> None:
    programs.run_program(
        # --yes: it asks whether data may go into the public log, though none does.
        ["cosign", command, "--yes", *arguments],
        name=f"`cosign {command}` of {arguments[-1]}",
        seconds=_SECONDS,
    )
