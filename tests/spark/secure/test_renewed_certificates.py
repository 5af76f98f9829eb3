"""Certificates that a node with the security plugin renews, below a continuous run."""

from pathlib import Path

import pytest

from icdc_testing.network.tls import Authority
from icdc_testing.target.secure.site import AUTHORITY, SecureSite
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark


def test_a_run_follows_new_certificates_of_its_authority_and_of_another_one(
    site: SecureSite, tmp_path: Path
) -> None:
    site.sql("insert into {} values (1, 'one')")
    with site.follow_continuously() as status:
        site.node.renew_certificate()
        site.sql("insert into {} values (2, 'two')")
        wait_until(lambda: site.count_documents() == 2, "the next row is there")
        assert status().reason is None

        before = site.node.ca
        site.node.renew_certificate(Authority.make(tmp_path / "other"))
        site.sql("insert into {} values (3, 'three')")
        wait_until(lambda: status().reason == "Unauthorized", "it is not trusted")
        assert "is not trusted" in (status().message or "")
        # Both of them, as long as nodes may have certificates of either.
        site.renew_secret(AUTHORITY, "ca.crt", before + site.node.ca)
        wait_until(lambda: site.count_documents() == 3, "the next row is there")
        wait_until(lambda: status().reason is None, "it is healthy")
