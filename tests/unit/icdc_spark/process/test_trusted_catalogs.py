"""Which authorities a run trusts before it opens the first catalog."""

from pathlib import Path
from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_spark.process import main
from icdc_testing.network.tls import Authority
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit


def _make_catalog(secret: str | None) -> dict[str, Any]:
    tls = {"tls": {"caFrom": {"secretRef": {"name": secret}}}} if secret else {}
    return {"properties": {"type": "rest", "uri": "https://c"}, **tls}


def test_the_authorities_of_all_catalogs_are_trusted_but_those_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        texts[name] = Authority.make(tmp_path / f"of-{name}").ca.read_text(encoding="utf-8").strip()
        (tmp_path / name / "ca.crt").write_text(texts[name], encoding="utf-8")
    (tmp_path / "empty").mkdir()
    names = (None, "empty", "one", "two", "one", "missing")
    tables = [
        {"name": f"db.t{number}", "identifierColumns": ["id"], "catalog": _make_catalog(name)}
        for number, name in enumerate(names)
    ]
    request = RunRequest.model_validate(
        {
            "run_id": "r",
            "mode": RunMode.RUN,
            "pipeline": {
                "apiVersion": "icebergcdc.dev/v1alpha1",
                "kind": "IcebergCDCPipeline",
                "metadata": {"name": "shop"},
                "spec": make_spec(tables=tables).to_resource(),
            },
            "owner": "default/shop",
            "epoch": 1,
            "report_path": str(tmp_path / "report.json"),
            "secrets_dir": str(tmp_path),
        }
    )
    trusted: list[str] = []
    monkeypatch.setattr(main, "trust_authority", lambda _, text: trusted.append(text))
    main.trust_catalogs(None, request)  # type: ignore[arg-type]
    assert trusted == sorted(texts.values())
