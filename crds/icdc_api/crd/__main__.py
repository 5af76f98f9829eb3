"""`python -m icdc_api.crd`: prints, writes or checks the CRD."""

from icdc_api.crd.generator import main

raise SystemExit(main())
