"""What a pod template may not say, and the message that says so."""

from typing import Any

import pytest

from icdc_api.errors import BadSpec
from icdc_api.spec.spark import Spark
from icdc_operator.manifests.application import build_spark_application
from icdc_operator.manifests.launch import InstallSettings, Launch, PipelineRef
from icdc_operator.manifests.pods import refused_values
from icdc_testing.operator.deciding.pipelines import make_spec, run_record

pytestmark = pytest.mark.unit


def make_spark(role: str, template: dict[str, Any]) -> Spark:
    document = {"localVolumes": [{"hostPath": {"path": "/mnt"}}], role: {"template": template}}
    return Spark.model_validate(document)


def make_pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def make_driver(**container: Any) -> dict[str, Any]:
    return make_pod(containers=[{"name": "spark-kubernetes-driver", **container}])


def make_executor(**container: Any) -> dict[str, Any]:
    return make_pod(containers=[{"name": "spark-kubernetes-executor", **container}])


ACCOUNT = "use spec.spark.driver.serviceAccount"
OWN = "a run has its own network, processes and memory; leave it out"
SETS = "Spark sets it in every pod; leave it out"
OUTCOME = "the driver writes its outcome there; leave it out"
STARTS = "the image starts the run; leave it out"
FOUND = "the operator finds runs and their pods by it; use another key"
FILES = "runs keep their files there; use another path"
PREFIX = "names that begin with icdc- belong to the run; use another name"
LOCAL = "the volume is made from spec.spark.localVolumes; use another name"

POD_CASES = [
    (make_pod(restartPolicy="Always"), f"spec.restartPolicy: 'Always' is not allowed: {SETS}"),
    (make_pod(serviceAccountName="a"), f"spec.serviceAccountName: 'a' is not allowed: {ACCOUNT}"),
    (make_pod(serviceAccount="a"), f"spec.serviceAccount: 'a' is not allowed: {ACCOUNT}"),
    (make_pod(hostNetwork=True), f"spec.hostNetwork: True is not allowed: {OWN}"),
    (make_pod(hostPID=True), f"spec.hostPID: True is not allowed: {OWN}"),
    (make_pod(hostIPC=True), f"spec.hostIPC: True is not allowed: {OWN}"),
    (
        make_pod(activeDeadlineSeconds=0),
        "spec.activeDeadlineSeconds: 0 is not allowed: use spec.timeouts.runSeconds",
    ),
    ({"status": {}}, "status: not allowed; allowed: metadata, spec"),
    (
        {"metadata": {"name": "x"}},
        "metadata.name: not allowed; allowed: labels, annotations",
    ),
    (
        {"metadata": {"labels": {"icebergcdc.dev/run": None}}},
        f"metadata.labels: the key 'icebergcdc.dev/run' is not allowed: {FOUND}",
    ),
    (
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}},
        f"metadata.labels: the key 'app.kubernetes.io/managed-by' is not allowed: {FOUND}",
    ),
    (
        {"metadata": {"annotations": {"icebergcdc.dev/epoch": "9"}}},
        f"metadata.annotations: the key 'icebergcdc.dev/epoch' is not allowed: {FOUND}",
    ),
    (
        {"metadata": {"labels": {"sparkoperator.k8s.io/mutated-by-spark-operator": "true"}}},
        "metadata.labels: the key 'sparkoperator.k8s.io/mutated-by-spark-operator' is not "
        f"allowed: {FOUND}",
    ),
    (
        make_pod(volumes=[{"name": "icdc-run", "emptyDir": {}}]),
        f"spec.volumes[0].name: 'icdc-run' is not allowed: {PREFIX}",
    ),
    (
        make_pod(volumes=[{"name": "a"}, {"name": "spark-local-dir-1", "emptyDir": {}}]),
        f"spec.volumes[1].name: 'spark-local-dir-1' is not allowed: {LOCAL}",
    ),
    (
        make_pod(
            initContainers=[{"name": "i", "volumeMounts": [{"name": "icdc-x", "mountPath": "/a"}]}]
        ),
        "spec.initContainers[0].volumeMounts[0].name: 'icdc-x' is not allowed: " + PREFIX,
    ),
]


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize(("template", "message"), POD_CASES)
def test_a_pod_of_either_role_is_refused(role: str, template: dict[str, Any], message: str) -> None:
    assert find(role, template) == [f"spec.spark.{role}.template.{message}"]


MAIN = "spec.containers[0]"
DRIVER_CASES = [
    (
        make_pod(automountServiceAccountToken=False),
        "spec.automountServiceAccountToken: False is not allowed: "
        "the driver needs the token to create the executors",
    ),
    (
        make_pod(automountServiceAccountToken=None),
        "spec.automountServiceAccountToken: None is not allowed: "
        "the driver needs the token to create the executors",
    ),
    (make_driver(image="x:1"), f"{MAIN}.image: 'x:1' is not allowed: use spec.spark.image"),
    (
        make_driver(imagePullPolicy="Never"),
        f"{MAIN}.imagePullPolicy: 'Never' is not allowed: {SETS}",
    ),
    (make_driver(command=["sh"]), f"{MAIN}.command: a list is not allowed: {STARTS}"),
    (make_driver(args=["secret"]), f"{MAIN}.args: a list is not allowed: {STARTS}"),
    (
        make_driver(terminationMessagePath="/x"),
        f"{MAIN}.terminationMessagePath: '/x' is not allowed: {OUTCOME}",
    ),
    (
        make_driver(terminationMessagePolicy="FallbackToLogsOnError"),
        f"{MAIN}.terminationMessagePolicy: 'FallbackToLogsOnError' is not allowed: {OUTCOME}",
    ),
    (
        make_driver(env=[{"name": "A"}, {"name": "POD_NAME", "value": "x"}]),
        f"{MAIN}.env[1].name: 'POD_NAME' is not allowed: it is set for every run; use another name",
    ),
    (
        make_driver(volumeMounts=[{"name": "spark-local-dir-1", "mountPath": "/x"}]),
        f"{MAIN}.volumeMounts[0].name: 'spark-local-dir-1' is not allowed: {LOCAL}",
    ),
    *(
        (
            make_driver(volumeMounts=[{"name": "v", "mountPath": path}]),
            f"{MAIN}.volumeMounts[0].mountPath: {path!r} is not allowed: {FILES}",
        )
        for path in (
            "/etc/icdc",
            "/etc/icdc/secrets/x",
            "/etc/x/../icdc/",
            "//etc/icdc",
            "/var/run/icdc/report.json",
            "/run/icdc",
            "/var/lib/icdc/local-1",
            "/opt/iceberg-cdc-operator",
            "/opt",
            "/",
            "/dev/termination-log",
        )
    ),
    (
        make_driver(
            resources={"requests": {"cpu": 2, "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
        ),
        f"{MAIN}.resources.requests.cpu: 2 is not allowed: use spec.spark.driver.cores",
        f"{MAIN}.resources.requests.memory: '2Gi' is not allowed: use spec.spark.driver.memory",
        f"{MAIN}.resources.limits.memory: '2Gi' is not allowed: use spec.spark.driver.memory",
    ),
    (
        make_pod(containers=[{"name": "spark-kubernetes-executor"}]),
        f"{MAIN}.image: missing; only spark-kubernetes-driver, the main container, has the run's "
        "image by default",
    ),
]


@pytest.mark.parametrize("case", DRIVER_CASES)
def test_a_driver_is_refused(case: tuple[Any, ...]) -> None:
    template, *messages = case
    assert find("driver", template) == [f"spec.spark.driver.template.{m}" for m in messages]


def test_an_executor_is_refused_where_spark_would_not_obey() -> None:
    assert find("executor", make_pod(terminationGracePeriodSeconds=90)) == [
        "spec.spark.executor.template.spec.terminationGracePeriodSeconds: 90 is not allowed: use "
        "the property spark.kubernetes.executor.terminationGracePeriodSeconds in spec.spark.conf"
    ]


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": None, "spec": None},
        make_pod(containers=None, volumes=None, restartPolicy=None, hostNetwork=False),
        make_pod(volumes=[{"name": "spark-local-dir-2", "emptyDir": {"medium": "Memory"}}]),
        make_pod(
            initContainers=[
                {"name": "i", "volumeMounts": [{"name": "spark-local-dir-1", "mountPath": "/x"}]}
            ]
        ),
        make_driver(image=None, resources={"limits": {"cpu": "2", "example.com/gpu": 1}}),
        make_driver(volumeMounts=[{"name": "a", "mountPath": "/opt/spark/jars/x.jar"}]),
        make_driver(volumeMounts=[{"name": "a", "mountPath": "/etc/icdc-extra"}]),
        make_pod(containers=[{"name": "sidecar", "image": "a", "env": [{"name": "POD_NAME"}]}]),
    ],
)
def test_the_rest_is_the_users_business(template: dict[str, Any]) -> None:
    assert find("driver", template) == []


def test_an_executor_may_say_what_only_a_driver_needs() -> None:
    template = make_executor(
        terminationMessagePolicy="File", env=[{"name": "POD_NAME", "value": "x"}]
    )
    template["spec"]["automountServiceAccountToken"] = False
    assert find("executor", template) == []


def test_no_application_is_made_and_every_problem_is_named() -> None:
    broken = make_spark("driver", make_pod(hostPID=True, hostIPC=True))
    spec = make_spec(spark=broken.to_resource())
    launch = Launch(PipelineRef("a", "b", "c"), run_record(), spec, InstallSettings("spark:1"))
    with pytest.raises(BadSpec) as refused:
        build_spark_application(launch)
    assert refused.value.message == "\n".join(refused_values.find_problems(broken))
    assert refused.value.message.count("\n") == 1


RISKY = {"spark.jars.packages": "a:b:1", "spark.driver.extraJavaOptions": "-javaagent:/x.jar"}


def make_launch(conf: dict[str, str], *trusted: str) -> Launch:
    settings = InstallSettings("spark:1", trusted_namespaces=trusted)
    return Launch(
        PipelineRef("retail", "b", "c"), run_record(), make_spec(spark={"conf": conf}), settings
    )


@pytest.mark.parametrize("trusted", [(), ("web",), ("retailer",)])
def test_what_acts_with_the_rights_of_spark_operator_is_refused_where_nobody_is_trusted(
    trusted: tuple[str, ...],
) -> None:
    with pytest.raises(BadSpec) as refused:
        build_spark_application(make_launch(RISKY, *trusted))
    jars, options = refused.value.message.splitlines()
    assert jars == (
        "spec.spark.conf['spark.jars.packages']: allowed only in trusted namespaces, because "
        "spark-operator fetches or reads what it names, with the permissions of its own pod; "
        "whoever installed the operator can add this namespace to the chart value trustedNamespaces"
    )
    assert options.startswith("spec.spark.conf['spark.driver.extraJavaOptions']: allowed only in ")
    assert "javaagent" not in options


@pytest.mark.parametrize("trusted", [("web", "retail"), ("*",)])
def test_a_trusted_namespace_may_set_it(trusted: tuple[str, ...]) -> None:
    conf = build_spark_application(make_launch(RISKY, *trusted))["spec"]["sparkConf"]
    assert RISKY.items() <= conf.items()


def test_problems_beyond_ten_are_counted() -> None:
    volumes = [{"name": f"icdc-{number}", "emptyDir": {}} for number in range(13)]
    with pytest.raises(BadSpec) as refused:
        refused_values.check(make_spark("driver", make_pod(volumes=volumes)), trusted=False)
    lines = refused.value.message.splitlines()
    assert (len(lines), lines[-1]) == (11, "and 3 more problems")


def find(role: str, template: dict[str, Any]) -> list[str]:
    return list(refused_values.find_problems(make_spark(role, template)))
