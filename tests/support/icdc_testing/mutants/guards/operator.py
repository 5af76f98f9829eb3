"""The guards of the operator."""

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.guard import Guard, GuardKind

_DECIDE = "operator/icdc_operator/core/decide.py"
_DELETION = "operator/icdc_operator/core/deletion.py"
_OBSERVED = "operator/icdc_operator/core/observed.py"
_RUN_LOG = "operator/icdc_operator/core/run_log.py"
_PROGRESS = "operator/icdc_operator/core/progress.py"
_REPORTS = "operator/icdc_operator/cluster/runs/reports.py"
_SEEN = "operator/icdc_operator/cluster/runs/seen.py"
_CREATION = "operator/icdc_operator/cluster/runs/creation.py"
_RECONCILER = "operator/icdc_operator/cluster/loop/reconciler.py"
_LEADER = "operator/icdc_operator/cluster/leader.py"
_CORE_TESTS = "tests/unit/icdc_operator/core"
_TESTS = "tests/unit/icdc_operator/cluster"
_DECIDE_TESTS = f"{_CORE_TESTS}/decide/test_decide.py"
_RUNS_TESTS = f"{_TESTS}/runs"

_RENEWALS = "operator/icdc_operator/cluster/runs/renewals.py"
_RENEWAL_TEST = (
    "tests/unit/icdc_operator/cluster/runs/test_renewals.py"
    "::test_a_driver_is_given_up_if_it_alone_renews_its_report_no_longer"
)

LISTED = (
    Guard(
        kind=GuardKind.OPERATOR,
        name="no run waits for executors for ever",
        prevents="A run whose executors cannot start waits for ever, and holds its place.",
        edits=(
            Edit(
                "operator/icdc_operator/core/run_log.py",
                "since, lacks = _find_executor_loss(run, seen.report), ",
                "since, lacks = None, ",
            ),
        ),
        tests=(
            "tests/unit/icdc_operator/cluster/runs/test_executors.py"
            "::test_a_run_that_gets_no_executor_in_time_ends_as_its_cause_and_is_tried_again",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a frozen driver is not waited for",
        prevents="A pipeline whose driver hangs stays Running for ever, and nobody hears of it.",
        edits=(Edit(_RENEWALS, "given_up=frozen", "given_up=False"),),
        tests=(_RENEWAL_TEST,),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="the API server takes no reports",
        prevents="While it refuses reports, all runs are ended, and none of them can start again.",
        edits=(Edit(_RENEWALS, "if self._is_everybody_late(key, now):", "if False:"),),
        tests=(_RENEWAL_TEST,),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="recorded before created",
        prevents="A crash leaves a run that is in no status, and a second run starts.",
        edits=(
            Edit(
                "operator/icdc_operator/core/run_planning.py",
                "return Draft(planned, requeue_after=0.0)",
                "from icdc_operator.core.observed import CreateRun\n"
                "    return Draft(planned, (CreateRun(run, continuous=False),), 0.0)",
            ),
        ),
        tests=(f"{_DECIDE_TESTS}::test_a_run_is_recorded_by_one_decision_and_created_by_the_next",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="strays are stopped first",
        prevents="A run is created while a run without a record still writes.",
        edits=(
            Edit(
                _DECIDE,
                "    if strays:\n        return Draft(status, strays, OBSERVE_SECONDS)\n"
                "    if observed.spec",
                "    if observed.spec",
            ),
        ),
        tests=(f"{_DECIDE_TESTS}::test_no_run_is_created_while_a_stray_one_may_write",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="no plan beside a stray",
        prevents="A run is planned while a run without a record still writes.",
        edits=(
            Edit(
                _DECIDE,
                "if run is None:\n        if strays:",
                "if run is None:\n        if False:",
            ),
        ),
        tests=(
            f"{_CORE_TESTS}/decide/test_decide_leftovers.py"
            "::test_what_is_left_of_an_attempt_is_not_removed_under_one_that_lives",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a live writer is a live run",
        prevents="The next run starts although the driver of the last one may still write.",
        edits=(
            Edit(
                _OBSERVED,
                "return self.writer_alive or not self.phase.ended",
                "return not self.phase.ended",
            ),
        ),
        tests=(f"{_DECIDE_TESTS}::test_an_ended_run_whose_writer_is_alive_is_not_closed",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="blind means waiting",
        prevents="An operator without the permission to list runs starts a second run.",
        edits=(Edit(_DECIDE, "if observed.blind:", "if False:"),),
        tests=(
            f"{_RUNS_TESTS}/test_adapter_denied.py"
            "::test_runs_that_may_not_be_looked_at_are_left_alone",
        ),
    ),
    Guard(
        kind=GuardKind.FENCE,
        name="epochs only grow",
        prevents="After a clock was set back, a run gets a lower epoch than the previous run.",
        edits=(Edit(_RUN_LOG, "max(1 + max(epochs, default=0), int(", "max(0, int("),),
        tests=(f"{_DECIDE_TESTS}::test_a_lost_status_uses_neither_a_name_nor_an_epoch_twice",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="names are used once",
        prevents="After a lost status a run gets the name of an older run, and is taken for it.",
        edits=(
            Edit(
                _RUN_LOG,
                "matches = (_SEQUENCE.search(seen.name) for seen in observed.runs)",
                "matches = (_SEQUENCE.search(seen.name) for seen in ())",
            ),
        ),
        tests=(f"{_DECIDE_TESTS}::test_a_lost_status_uses_neither_a_name_nor_an_epoch_twice",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a report is of its run",
        prevents="The progress and the outcome of an older attempt count for the newer one.",
        edits=(Edit(_REPORTS, "if report is not None and report.run_id != run_id:", "if False:"),),
        tests=(f"{_RUNS_TESTS}/test_seen.py::test_words_of_another_attempt_do_not_count",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="last words are of their run",
        prevents="The termination message of an older attempt ends the newer one.",
        edits=(
            Edit(
                _REPORTS,
                "if ending is None or ending.run_id != run_id or not ending.finished:",
                "if ending is None or not ending.finished:",
            ),
        ),
        tests=(f"{_RUNS_TESTS}/test_seen.py::test_words_of_another_attempt_do_not_count",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a late report takes nothing back",
        prevents="A report that is read late shows an older snapshot as applied.",
        edits=(
            Edit(
                _PROGRESS,
                "return new.applied_at is not None and new.applied_at < old.applied_at",
                "return False",
            ),
        ),
        tests=(
            f"{_CORE_TESTS}/decide/test_decide_leftovers.py"
            "::test_only_a_report_that_is_older_by_a_clock_that_was_right_is_late",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a stranger's application is no run",
        prevents="Anybody who may create SparkApplications can report results for a pipeline.",
        edits=(
            Edit(
                _SEEN,
                "if not _is_owned(application, pipeline) and not _is_deletion(",
                "if False and not _is_deletion(",
            ),
        ),
        tests=(f"{_RUNS_TESTS}/test_seen.py::test_an_application_of_a_stranger_is_no_run",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a newer run stays",
        prevents="An operator that was disconnected deletes the objects of a newer run.",
        edits=(Edit(_CREATION, "if (read_epoch(present) or 0) > launch.run.epoch:", "if False:"),),
        tests=(
            f"{_RUNS_TESTS}/test_adapter.py"
            "::test_a_newer_run_of_the_name_is_left_alone_by_an_operator_that_is_behind",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="actions only after the record",
        prevents="A run is created although its record was not written.",
        edits=(
            Edit(
                _RECONCILER,
                "            except NotFound:\n                self._forget(key)\n"
                "                return None\n        elif ",
                "            except Exception:\n                pass\n        elif ",
            ),
        ),
        tests=(
            f"{_TESTS}/loop/test_reconciler.py"
            "::test_no_action_is_carried_out_when_the_status_could_not_be_written",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a stale observation stops nothing",
        prevents="A run that another operator has just recorded and created is stopped as a stray.",
        edits=(Edit(_RECONCILER, "await self._adapter.confirm(observation)", "pass"),),
        tests=(
            f"{_TESTS}/loop/test_reconciler.py"
            "::test_a_run_without_a_record_is_stopped_only_if_there_is_still_none",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a deletion waits for its run",
        prevents="The pipeline is removed while its run still writes, and its index stays.",
        edits=(
            Edit(
                _DELETION,
                "quiet = status.current_run is None and not any(run.live for run in observed.runs)",
                "quiet = True",
            ),
        ),
        tests=(
            f"{_CORE_TESTS}/test_deletion.py"
            "::test_a_run_that_still_writes_is_waited_for_although_the_indices_are_deleted",
        ),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="the finalizer comes first",
        prevents="A pipeline that is deleted right after its creation leaves an index behind.",
        edits=(
            Edit(
                _DELETION,
                "allowed = [action for action in actions if not isinstance(action, CreateRun)]",
                "allowed = list(actions)",
            ),
        ),
        tests=(f"{_CORE_TESTS}/test_deletion.py::test_the_finalizer_comes_before_the_first_run",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a held lease is not taken",
        prevents="Two operators lead at the same time.",
        edits=(Edit(_LEADER, "return self._clock() - self._seen[1] > holds", "return True"),),
        tests=(f"{_TESTS}/test_leader.py::test_a_live_leader_is_not_replaced",),
    ),
    Guard(
        kind=GuardKind.OPERATOR,
        name="a leader ends before its lease",
        prevents="A leader without a network continues beside the next leader.",
        edits=(
            Edit(
                _LEADER,
                "left = renewed + self._timing.renew - asked",
                "left = renewed + 10 * self._timing.renew - asked",
            ),
        ),
        tests=(
            f"{_TESTS}/test_leader.py::test_a_leader_that_cannot_renew_ends_before_its_lease_does",
        ),
    ),
)
