"""The cure of each error, as commands; classes and reasons that stand on an error share it.

Keyed by the name of the class in `icdc_api.errors`, which says who acts. The placeholders are those
of `Explanation.cure`.
"""

from icdc_api import naming

_PIPELINE = "NAME -n NAMESPACE"
_OF_PIPELINE = f"-n NAMESPACE -l {naming.LABEL_PIPELINE}=NAME"
_STATE = f"SEARCH/{naming.STATE_INDEX}/_doc/INDEX"

STATUS = f"icdc status {_PIPELINE}"
PLAN = f"icdc plan {_PIPELINE}"
LOGS = f"icdc logs {_PIPELINE}"
RESUME = f"icdc resume {_PIPELINE}"
RESYNC = f"icdc resync {_PIPELINE} --table TABLE"
ROLLBACK = f"icdc rollback {_PIPELINE} --table TABLE"
DEAD_LETTERS = f"icdc dead-letters list {_PIPELINE} --table TABLE"
REPLAY = f"icdc dead-letters replay {_PIPELINE} --table TABLE"
VERIFY = f"icdc verify {_PIPELINE}"
REPAIR = f"icdc verify {_PIPELINE} --repair"
DESCRIBE = f"kubectl describe icdc {_PIPELINE}"
PODS = f"kubectl describe pods {_OF_PIPELINE}"
POD_LOGS = f"kubectl logs {_OF_PIPELINE} --all-containers"
APPLICATIONS = f"kubectl describe sparkapplications {_OF_PIPELINE}"
RETAIN = f"kubectl annotate icdc {_PIPELINE} {naming.ANNOTATION_RETAIN}=true"
RESTART = f"icdc restart {_PIPELINE}"
REPORT = f"icdc report {_PIPELINE}  # attach its file to the issue that you open"

RIGHTS = (
    "kubectl auth can-i --list -n NAMESPACE --as system:serviceaccount:OPERATOR:ACCOUNT  # add "
    "what the message names"
)
_OPERATOR = (
    "-n OPERATOR -l app.kubernetes.io/name=iceberg-cdc-operator,"
    "app.kubernetes.io/component=operator"
)
OPERATOR_LOG = f"kubectl logs {_OPERATOR} --tail=-1"
OPERATOR_PODS = f"kubectl describe pods {_OPERATOR}"


def set_value(setting: str) -> str:
    """Return the command that changes one value of the operator's release."""
    return f"helm upgrade RELEASE CHART -n OPERATOR --reset-then-reuse-values --set {setting}"


def edit(field: str, change: str) -> str:
    """Return the command that edits a field of the spec, with what to make of it."""
    return f"kubectl edit icdc {_PIPELINE}  # spec.{field}: {change}"


def _unblock(block: str) -> str:
    return (
        "curl -X PUT SEARCH/INDEX/_settings -H 'Content-Type: application/json' "
        f"-d '{{\"index.blocks.{block}\": null}}'"
    )


EDIT = f"kubectl edit icdc {_PIPELINE}  # the field that the message names"
DUPLICATES = (
    edit("tables[].identifierColumns", "columns by which each row is another"),
    edit("tables[].appendOnly", "true, if each row is to be a document"),
    f"{RESYNC}  # after the rows were corrected: only an export counts them anew",
)

CURES: dict[str, tuple[str, ...]] = {
    "BadSpec": (EDIT,),
    "Fenced": (f"icdc pause {_PIPELINE}  # that one of the two that should not run",),
    "Bug": (LOGS, REPORT),
    "SourceUnavailable": (f"{STATUS}  # the message names what does not answer",),
    "TargetUnavailable": ("curl SEARCH/_cluster/health",),
    "Throttled": (edit("sink.opensearch.bulk.maxInFlight", "fewer requests at a time"),),
    "NoProgress": (LOGS,),
    "Gap": (RESYNC, edit("changelog.onGap", "Reexport: the next gap then needs nobody")),
    "IncompatibleSchema": (
        RESYNC,
        edit("changelog.onIncompatibleSchema", "Reexport: the next change then needs nobody"),
    ),
    "AliasTaken": (edit("tables[].index", "a name that nobody else uses"),),
    "TableNotFound": (edit("tables[].name", "as in the catalog, unless the table is created"),),
    "BranchNotFound": (edit("tables[].branch", "a branch of the table"),),
    "ColumnNotFound": (EDIT,),
    "FilterInvalid": (edit("tables[].rowFilter", "a condition on columns of the table"),),
    "FieldInvalid": (
        edit("tables[].fields", "as the message says; icdc preview -f shows the documents"),
        edit("tables[].routing", "likewise, if the message names it"),
        f"{DEAD_LETTERS}  # if an expression fails on many rows: the field that fails",
    ),
    "UnsupportedType": (edit("tables[].columns", "all but the column that the message names"),),
    "NoIdentifier": (edit("tables[].identifierColumns", "the columns that identify a row"),),
    "NotAppendOnly": (
        edit(
            "tables[].appendOnly",
            "false, with identifierColumns, if such commits are right: ids are others then, so the "
            "table is exported anew",
        ),
        f"{RESYNC}  # if the commit was an exception and appendOnly stays",
    ),
    "DataFileMissing": (
        f"{RESYNC}  # if the current snapshot does without the file; once the file is back, the "
        "table goes on by itself",
    ),
    "FileUnreadable": (
        f"{RESYNC}  # if the current snapshot does without the file; once the file is whole, the "
        "table goes on by itself",
    ),
    "DeadLetterLimit": (
        DEAD_LETTERS,
        edit("sink.opensearch.deadLetters.maxRows", "a higher limit, if the rows may be left out"),
        f"{REPLAY}  # after the rows or the mapping were corrected",
        edit("sink.opensearch.deadLetters.policy", "Index, if it is Stop: then no row was stored"),
    ),
    "TargetReadOnly": (
        "curl 'SEARCH/_cat/allocation?v'  # free space on disks that are full",
        # One at a time: with two settings OpenSearch refuses even this request.
        f"{_unblock('read_only_allow_delete')}  # if the message says read-only-allow-delete; of "
        "the index that it names, such as icdc-state",
        f"{_unblock('read_only')}  # if it says index read-only",
        f"{_unblock('write')}  # if it says index write",
        "curl -X PUT SEARCH/_cluster/settings -H 'Content-Type: application/json' "
        '-d \'{"persistent": {"cluster.blocks.read_only": null}}\'  # if the message says cluster '
        "read-only; transient in place of persistent, if it was set so",
        "curl -X POST SEARCH/INDEX/_open  # if the index is closed",
        "curl 'SEARCH/_cluster/settings?include_defaults&filter_path=*.cluster.max_shards_per_node'"
        "  # raise it, or delete indices, if no more shards are taken",
    ),
    "TargetInvalid": (
        f"{RESYNC}  # after what the message names was changed back or stopped",
        edit(
            "changelog.proveBeforeSwitch",
            "Count, before that, if the message names a difference that you want to keep",
        ),
    ),
    "StateCorrupt": (
        f"curl {_STATE}",
        f"curl -X DELETE {_STATE}  # if it was edited: the table is exported anew, as after a "
        "restore. If a newer version wrote it, install that version again instead",
    ),
    "Unauthorized": (
        "kubectl edit secret SECRET -n NAMESPACE  # or the permission that the message names; it "
        "is retried every retry.maxSeconds",
    ),
    "CatalogInvalid": (edit("catalog.properties", "as the message says"), PLAN),
    "MappingInvalid": (
        edit("tables[].mapping", "a type that OpenSearch accepts"),
        edit("sink.opensearch.indexSettings", "settings that OpenSearch accepts"),
    ),
    "RollbackRefused": (
        f"{EDIT}, as it was for the earlier index: the rollback is then done",
        f"{RESYNC}  # if a new export is wanted; ends the rollback of other tables too",
        f"icdc resync {_PIPELINE} --mode Verify --table TABLE  # to go on with the present index; "
        "ends the rollback of other tables too",
    ),
    "Submission": (APPLICATIONS, RESTART),
    "ImagePull": (
        PODS,
        "kubectl get secrets -n NAMESPACE  # if the registry needs a login: a Secret with it must "
        "be here, and in the chart value spark.image.pullSecrets",
        edit("spark.image", "an image that the nodes can pull"),
    ),
    "Unschedulable": (PODS, edit("spark.executor", "fewer instances, less memory or fewer cores")),
    "StartTimeout": (LOGS, edit("timeouts.startSeconds", "more time")),
    "OutOfMemory": (
        edit("spark.driver.memory", "more, if the message names the driver"),
        edit("spark.executor.memory", "more, if it names an executor"),
    ),
    "DiskFull": (PODS, edit("spark.localVolumes", "a larger volume for shuffle and spill")),
    "NodeLost": (),
    "DriverLost": (LOGS,),
}
"""Commands by error. Those of an error that is retried are for the case that it lasts."""
