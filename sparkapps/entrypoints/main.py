"""The application file of a driver in a container: what `local:///…/main.py` names."""

from icdc_spark.container import ending
from icdc_spark.process.main import leave, main

if __name__ == "__main__":
    code = main()
    ending.wait_for_jvm()
    leave(code)
