"""The application file of a driver in a container: what `local:///…/main.py` names."""

import sys

from icdc_spark.container import ending
from icdc_spark.process.main import main

if __name__ == "__main__":
    code = main()
    ending.wait_for_jvm()
    sys.exit(code)
