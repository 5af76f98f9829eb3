"""A password that is changed on a node with the security plugin, below a continuous run."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.target.secure_site import SECRET, Site
from icdc_testing.waiting.wait import until

pytestmark = pytest.mark.spark


def test_a_run_goes_on_with_the_password_that_the_secret_has_now(site: Site) -> None:
    secrets = site.harness.folder / "secrets"
    site.sql("insert into {} values (1, 'one')")
    request = site.harness.request(continuous=True, secrets_dir=str(secrets))
    report, stop = Path(request.report_path), threading.Event()

    def status() -> TableStatus:
        return RunReport.read(report).tables[0]

    def documents() -> object:
        return site.node.call("GET", "/orders/_count").json.get("count")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(request, site.harness.spark, stop).run)
        try:
            until(lambda: report.exists() and status().state == "Streaming", "followed", seconds=60)
            _, password = site.node.user(site.role, site.role)
            until(lambda: status().reason == "Unauthorized", "it is refused", seconds=60)
            assert f"the credentials in Secret '{SECRET}'" in (status().message or "")
            fresh = secrets / "password.fresh"
            fresh.write_text(password, encoding="utf-8")
            fresh.replace(secrets / SECRET / "password")
            site.sql("insert into {} values (2, 'two')")
            until(lambda: documents() == 2, "the next row is there", seconds=60)
            until(lambda: status().reason is None, "it is healthy", seconds=60)
        finally:
            stop.set()
        assert running.result(60).outcome is None
