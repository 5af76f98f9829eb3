"""A role that shows the pipeline's user a part of the index: nothing is written or compared by it.

The security plugin answers searches about what is left, without a word about the rest.
"""

import json
from copy import deepcopy
from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport
from icdc_testing.target.secure.site import ROLE, SecureSite

pytestmark = pytest.mark.spark

REASON = "shows the user of Secret 'search' only a part of the documents or fields"
HIDDEN: dict[str, dict[str, Any]] = {
    "documents": {"dls": json.dumps({"term": {"name": "one"}})},
    "fields": {"fls": ["~name"]},
    "values": {"masked_fields": ["name"]},
}


def hide(site: SecureSite, what: str) -> None:
    role = deepcopy(ROLE)
    of_orders = next(one for one in role["index_permissions"] if "orders" in one["index_patterns"])
    of_orders.update(HIDDEN[what])
    site.node.give_role(site.role, role)


def assert_refused(report: RunReport) -> None:
    entries = (report.result or {}).get("tables", ())
    said = [(table.reason, table.message or "") for table in report.tables]
    said += [(entry.get("reason"), entry.get("message", "")) for entry in entries]
    assert any(reason == "Unauthorized" and REASON in text for reason, text in said), said


@pytest.mark.sampled
@pytest.mark.parametrize("what", HIDDEN)
def test_a_role_that_hides_a_part_of_the_index_is_refused_by_name_until_it_does_not(
    site: SecureSite, what: str
) -> None:
    site.sql("insert into {} values (1, 'one'), (2, 'two')")
    site.run_ok()
    hide(site, what)
    for mode in (RunMode.VERIFY, RunMode.REPAIR):
        assert_refused(site.run(mode))
    site.sql("insert into {} values (3, 'three')")
    assert_refused(site.run())
    site.node.give_role(site.role, ROLE)
    assert site.count_documents() == 2
    site.run_ok()
    assert site.count_documents() == 3
    assert site.run_ok(RunMode.VERIFY)["equal"]


def test_a_first_export_by_such_a_role_is_refused_by_name(site: SecureSite) -> None:
    site.sql("insert into {} values (1, 'one'), (2, 'two')")
    hide(site, "documents")
    assert_refused(site.run())
    site.node.give_role(site.role, ROLE)
    site.run_ok()
    assert site.count_documents() == 2
