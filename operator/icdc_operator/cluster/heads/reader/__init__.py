"""The process that speaks to catalogs for the operator, which has no Kubernetes token itself.

One child for each catalog: what a catalog answers ends at most its own child. `addresses` says
where children may connect to, `confinement` what else they may do, `process` starts and ends them.
"""
