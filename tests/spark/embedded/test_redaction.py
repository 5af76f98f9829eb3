"""Nothing that a catalog is opened with is shown by Spark: on pages, in the event log, in logs."""

import json
import shlex
import subprocess

import pytest

from icdc_api.spec.spark import Spark
from icdc_cli.local import application

pytestmark = pytest.mark.spark

SECRETS = {
    "adls.auth.shared-key.account.key": "adls-4711",
    "adls.connection-string.lake": "AccountKey-4712",
    "header.Authorization": "Bearer bearer-4713",
    "header.X-Api-Key": "api-4714",
    "jdbc.password": "jdbc-4715",
    "rest.signing-name": "signing-4716",
    "s3.access-key-id": "AKIA4717",
    "s3.secret-access-key": "s3-4718",
    "uri": "http://user:uri-4719@catalog",
}
"""Properties of a catalog, most of which Spark by itself takes for harmless."""
OF_THE_APPLICATION = {
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "azure-4720",
    "spark.hadoop.fs.s3a.access.key": "s3a-4721",
}
"""Properties of the application, which its page about the environment shows."""

# Prints the pages, the answers of the API and the event log, one JSON string for each.
ASK = """
import json, pathlib, sys, urllib.request
from icdc_spark.iceberg.jvm.session import create_application_session, create_table_session
warehouse, events, properties = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
application = create_application_session("redaction")
properties = {**properties, "type": "hadoop", "warehouse": warehouse}
session = create_table_session(application, "lake", properties)
session.sql("CREATE TABLE lake.shop.orders (id BIGINT) USING iceberg")
session.sql("INSERT INTO lake.shop.orders VALUES (1), (2)")
assert session.table("lake.shop.orders").groupBy("id").count().count() == 2
other = create_table_session(application, "lake", {"type": "hadoop"}).conf.getAll
assert sorted(key for key in other if key.startswith("spark.sql.catalog.")) == [
    "spark.sql.catalog.lake", "spark.sql.catalog.lake.cache-enabled", "spark.sql.catalog.lake.type"]
url, name = application.sparkContext.uiWebUrl, application.sparkContext.applicationId
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sql = f"/api/v1/applications/{name}/sql?details=true&planDescription=true"
known = json.loads(opener.open(url + sql).read())
paths = [sql, f"/api/v1/applications/{name}/environment", "/environment/", "/SQL/", "/jobs/"]
paths += [f"/SQL/execution/?id={each['id']}" for each in known]
pages = [opener.open(url + path).read().decode() for path in paths]
application.stop()
pages += [each.read_text() for each in events.rglob("*") if each.is_file()]
print(json.dumps(pages))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All that Spark shows of a run that read and wrote a table."""
    folder = tmp_path_factory.mktemp("redaction")
    events = folder / "events"
    events.mkdir()
    installed = application.find_installed()
    env = application.build_environment(installed, Spark(), scratch=folder, marker="redaction")
    conf = {
        **OF_THE_APPLICATION,
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    more = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    options, shell = env["PYSPARK_SUBMIT_ARGS"].rsplit(" ", 1)
    env["PYSPARK_SUBMIT_ARGS"] = f"{options} {shlex.join([*more, shell])}"
    arguments = (str(folder / "warehouse"), str(events), json.dumps(SECRETS))
    done = subprocess.run(
        [installed.python, "-c", ASK, *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return "\n".join([*json.loads(done.stdout), done.stderr])


@pytest.mark.parametrize("key", SECRETS)
def test_the_value_of_a_catalog_property_is_shown_nowhere(key: str, shown: str) -> None:
    assert f"spark.sql.catalog.lake.{key}" in shown
    assert SECRETS[key] not in shown


@pytest.mark.parametrize("key", OF_THE_APPLICATION)
def test_the_value_of_a_key_for_storage_is_shown_nowhere(key: str, shown: str) -> None:
    assert key in shown
    assert OF_THE_APPLICATION[key] not in shown


def test_what_is_no_secret_is_shown(shown: str) -> None:
    assert "IcebergSparkSessionExtensions" in shown
    assert "redacted" in shown
