"""A password that is changed on a node with the security plugin, below a continuous run."""

import pytest

from icdc_testing.target.secure.site import SECRET, SecureSite
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark


def test_a_run_goes_on_with_the_password_that_the_secret_has_now(site: SecureSite) -> None:
    site.sql("insert into {} values (1, 'one')")
    with site.follow_continuously() as status:
        _, password = site.node.create_user(site.role, site.role)
        wait_until(lambda: status().reason == "Unauthorized", "it is refused")
        assert f"the credentials in Secret '{SECRET}'" in (status().message or "")
        site.renew_secret(SECRET, "password", password)
        site.sql("insert into {} values (2, 'two')")
        wait_until(lambda: site.count_documents() == 2, "the next row is there")
        wait_until(lambda: status().reason is None, "it is healthy")
