"""Pipelines and their runs as objects of a cluster: objects to observations, actions to requests.

    API server  --objects-->  resource (spec, status)                 \
                              seen (runs) <- pods, reports,            >  Observed  ->  core.decide
                                             applications, evidence   /
    API server  <-requests--  creation, adapter  <-----------------------  actions  <-  core.decide

`adapter` puts both directions together; `memory` keeps hints that no object holds.
"""
