"""Copy the Secrets that a pipeline names out of its cluster, for a question that this host answers.

With the rights of the caller, and into the files that the kubelet would mount, so that the
application reads them as everywhere else.

    Secret lake {credential: aWQ6c2VjcmV0}      DIRECTORY/lake/credential    id:secret
"""

from pathlib import Path

from icdc_api.errors import BadSpec
from icdc_api.spec.pipeline import PipelineSpec
from icdc_cli.cluster.session import Target
from icdc_cli.local.files import PRIVATE_MODE
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.manifests.secret_names import list_secret_fields


async def copy_secrets(target: Target, spec: PipelineSpec, directory: Path) -> None:
    """Write each Secret that a run of the spec reads into `directory`, which is to be private.

    BadSpec, with the field, for one that does not exist or that the caller may not read.
    """
    for field, name in list_secret_fields(spec):
        try:
            secret = await target.api.get(kinds.SECRET, target.namespace, name)
        except api_errors.Denied as error:
            raise BadSpec(
                f"{field}: {error.message}; or give the Secret {name} as files, with --secrets-dir"
            ) from error
        if secret is None:
            raise BadSpec(f"{field}: there is no Secret {name} in the namespace {target.namespace}")
        # Two fields may name one Secret.
        (directory / name).mkdir(exist_ok=True)
        for key, value in kinds.decode_secret(secret).items():
            path = directory / name / key
            # Before the value is in it: nobody else may read it, not even for a moment.
            path.touch(PRIVATE_MODE)
            path.write_bytes(value)
