"""An S3 server on the bridge: SeaweedFS, with one bucket for the tests.

Knows its command line and what clients must know of it.
"""

import json
import sys
from pathlib import Path

from pyarrow import ArrowException
from pyarrow.fs import S3FileSystem

from icdc_api.errors import Submission
from icdc_testing.kube.kubectl import write_private
from icdc_testing.kube.server_process import FixedPort, Program
from icdc_testing.real_cluster.host import layout
from icdc_testing.real_cluster.host.programs import Starter

PORT = FixedPort(layout.ADDRESS, 8333)
BUCKET = "lake"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "icdc-tests", "icdc-tests-secret"

PROPERTIES = {
    "s3.endpoint": f"http://{PORT.address}",
    "s3.access-key-id": ACCESS_KEY,
    "s3.secret-access-key": SECRET_KEY,
    "s3.path-style-access": "true",
    "s3.region": REGION,
    "client.region": REGION,
}
"""Catalog properties, in the names of Iceberg and of pyiceberg."""

_START_SECONDS = 60.0


def start(starter: Starter) -> Program:
    """Start it; `wait_until_ready` waits for it."""
    folder = starter.paths.run / "objects"
    folder.mkdir(exist_ok=True)
    credentials = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    identity = {"name": "tests", "credentials": [credentials], "actions": ["Admin"]}
    config = write_private(folder / "s3.json", json.dumps({"identities": [identity]}))
    return starter.start(
        find_program(),
        [
            *("server", f"-dir={folder}", f"-ip={layout.ADDRESS}", f"-ip.bind={layout.ADDRESS}"),
            *("-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=64"),
            *("-filer", f"-filer.localSocket={folder}/filer.sock"),
            *("-s3", f"-s3.config={config}", f"-s3.port={PORT.number}"),
            *(f"-s3.localSocket={folder}/s3.sock", "-s3.port.iceberg=0", "-s3.iam=false"),
        ],
        name="object-store",
    )


def find_program() -> Path:
    """Return SeaweedFS itself, which is among the packages of the tests; Submission without it."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise Submission(f"{weed} is missing: install what tools/locks/all.lock lists.")
    return weed


def wait_until_ready(program: Program) -> dict[str, str]:
    """Return, once the bucket is there, what a client must know."""
    program.wait_until(_has_bucket, f"the bucket {BUCKET} is there", seconds=_START_SECONDS)
    return dict(PROPERTIES)


def make_client() -> S3FileSystem:
    """Return a client on this host."""
    return S3FileSystem(
        endpoint_override=PORT.address,
        scheme="http",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        allow_bucket_creation=True,
        request_timeout=5,
        connect_timeout=2,
    )


def _has_bucket() -> bool:
    try:
        make_client().create_dir(BUCKET)
    except (OSError, ArrowException):
        return False
    return True
