#!/opt/venv/bin/python
"""Spark's hook before an executor's container is stopped, which it expects as /opt/decom.sh."""

import sys

from icdc_spark.container.decommission import main

sys.exit(main())
