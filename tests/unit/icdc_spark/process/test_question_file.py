"""Questions in a file, and the answer that the tables of a run give bit by bit."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from icdc_api.base import MAX_TEXT
from icdc_api.errors import SourceUnavailable
from icdc_api.job.answers import ComparisonEntry, RunAnswer, TableEntry
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion
from icdc_spark.iceberg.jvm.table_jobs import JobProgress
from icdc_spark.process.question_file import ATTEMPTS, RunQuestions
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.unit

TAGS = {"db.orders": "orders", "db.users": "users"}
ORDERS, USERS = TAGS
GOOD: ComparisonEntry = {"equal": True}
BUSY: TableEntry = {"reason": "TargetUnavailable", "message": "one node is busy"}


@dataclass
class SparkJobs:
    """Stands for Spark's."""

    cancelled: list[str] = field(default_factory=list)

    def read(self, tag: str) -> JobProgress:
        raise AssertionError(tag)

    def cancel(self, tag: str) -> None:
        self.cancelled.append(tag)


@dataclass
class AskedRun:
    """A file, and the run that reads it."""

    path: Path
    jobs: SparkJobs = field(default_factory=SparkJobs)
    published: list[RunAnswer | None] = field(default_factory=list)
    answer_seconds: float = 3600.0

    def __post_init__(self) -> None:
        self.run = RunQuestions(
            str(self.path),
            TAGS,
            jobs=self.jobs,
            publish=self.published.append,
            answer_seconds=self.answer_seconds,
        )

    def ask(self, number: str, mode: RunMode = RunMode.VERIFY, *tables: str) -> RunQuestion:
        question = RunQuestion.model_validate(
            {"id": number, "mode": mode, "tables": tables or None}
        )
        question.write(self.path)
        self.run.poll()
        return question

    def answer(
        self, table: str, question: RunQuestion, entry: TableEntry, seconds: float = 0.0
    ) -> None:
        self.run.answer(table, question, entry, backoff=lambda _: seconds)

    @property
    def last(self) -> RunAnswer:
        last = self.published[-1]
        assert last is not None
        return last


@pytest.fixture
def asked(tmp_path: Path) -> AskedRun:
    return AskedRun(tmp_path / "question.json")


def test_an_answer_is_complete_once_every_table_has_answered(asked: AskedRun) -> None:
    assert asked.run.find(ORDERS) is None
    question = asked.ask("a")
    assert asked.last == {"question": "a", "complete": False, "tables": []}
    assert asked.run.find(ORDERS) == asked.run.find(USERS) == question
    asked.answer(USERS, question, GOOD | {"name": USERS})
    assert (asked.run.find(USERS), asked.last["complete"]) == (None, False)
    asked.answer(ORDERS, question, GOOD | {"name": ORDERS})
    assert asked.last["complete"]
    assert [entry["name"] for entry in asked.last["tables"]] == [ORDERS, USERS]
    published = len(asked.published)
    asked.run.poll()
    assert (len(asked.published), asked.run.find(ORDERS)) == (published, None)


def test_tables_that_are_not_asked_answer_nothing_and_are_not_waited_for(asked: AskedRun) -> None:
    question = asked.ask("a", RunMode.REPAIR, USERS, "db.unknown")
    assert asked.run.find(ORDERS) is None
    asked.answer(USERS, question, GOOD)
    assert asked.last["complete"]


def test_a_person_can_ask_of_some_tables_alone(asked: AskedRun) -> None:
    question = RunQuestion(id="a", mode=RunMode.REPLAY, only=(USERS,), ids=("7",))
    question.write(asked.path)
    asked.run.poll()
    assert (asked.run.find(ORDERS), asked.run.find(USERS)) == (None, question)
    asked.answer(USERS, question, GOOD)
    assert asked.last["complete"]


def test_the_answer_to_the_question_before_is_none_to_this_one(asked: AskedRun) -> None:
    first = asked.ask("a")
    second = asked.ask("b")
    assert not asked.run.is_open(first)
    asked.answer(ORDERS, first, GOOD)
    assert asked.last == {"question": "b", "complete": False, "tables": []}
    assert asked.run.find(ORDERS) == second


@pytest.mark.parametrize("mode", [RunMode.PLAN, RunMode.VERIFY, RunMode.DEAD_LETTERS])
def test_what_nobody_waits_for_is_cancelled_until_it_ends(asked: AskedRun, mode: RunMode) -> None:
    question = asked.ask("a", mode)
    with asked.run.mark_comparing(ORDERS, question):
        asked.run.poll()
        assert not asked.jobs.cancelled
        asked.path.unlink()
        asked.run.poll()
        asked.run.poll()
        assert asked.jobs.cancelled == ["orders", "orders"], "it may have begun another job"
    asked.run.poll()
    assert len(asked.jobs.cancelled) == 2, "the next job is one of a batch"
    assert asked.run.find(ORDERS) is None


@pytest.mark.parametrize("mode", [RunMode.REPAIR, RunMode.REPLAY])
def test_what_writes_is_never_cancelled(asked: AskedRun, mode: RunMode) -> None:
    question = asked.ask("a", mode)
    with asked.run.mark_comparing(ORDERS, question):
        asked.path.unlink()
        asked.run.poll()
    assert not asked.jobs.cancelled


def test_a_table_that_hangs_is_not_waited_for_and_says_why(asked: AskedRun) -> None:
    asked.run.mark_silent(USERS, SourceUnavailable("the catalog hangs"))
    question = asked.ask("a")
    asked.answer(ORDERS, question, GOOD | {"name": ORDERS})
    assert asked.last["complete"]
    assert asked.last["tables"][1] == {
        "name": USERS,
        "reason": "SourceUnavailable",
        "message": "the catalog hangs",
    }
    asked.run.mark_audible(USERS)
    asked.ask("b")
    asked.run.mark_silent(ORDERS, None)
    assert not asked.last["complete"], "the other one answers again"


def test_a_table_is_asked_again_only_after_a_while(asked: AskedRun) -> None:
    question = asked.ask("a", RunMode.VERIFY, ORDERS)
    asked.answer(ORDERS, question, BUSY, 3600)
    assert asked.run.find(ORDERS) is None
    assert not asked.last["complete"]
    for _ in range(ATTEMPTS - 2):
        asked.answer(ORDERS, question, BUSY)
        assert asked.run.find(ORDERS) == question
    asked.answer(ORDERS, question, BUSY)
    assert (asked.last["complete"], asked.last["tables"]) == (True, [BUSY])


@pytest.mark.parametrize(
    ("entry", "tables"),
    [(BUSY, ()), ({"reason": "Gap", "message": "m"}, (ORDERS,))],
    ids=["a person", "what does not pass"],
)
def test_an_answer_is_not_waited_for_where_nothing_else_is_to_be_expected(
    entry: TableEntry, tables: tuple[str, ...], asked: AskedRun
) -> None:
    question = asked.ask("a", RunMode.VERIFY, *tables)
    asked.answer(ORDERS, question, entry, 3600)
    assert asked.last["tables"] == [entry]


@pytest.mark.parametrize(
    ("text", "is_answered"),
    [
        ("", False),
        ("no", False),
        ("[]", False),
        ("{}", False),
        (json.dumps({"id": "a", "mode": "delete"}), True),
        (json.dumps({"id": "a", "mode": "run"}), True),
        (json.dumps({"id": "a", "mode": "letters", "documents": True}), True),
        (json.dumps({"id": "a", "mode": "verify", "pipeline": {}}), True),
    ],
)
def test_what_is_no_question_asks_nothing_and_is_said_once(
    text: str, is_answered: bool, asked: AskedRun, caplog: pytest.LogCaptureFixture
) -> None:
    asked.path.write_text(text)
    asked.run.poll()
    asked.run.poll()
    assert asked.run.find(ORDERS) is None
    assert len(asked.published) == is_answered
    for answer in asked.published:
        assert answer is not None
        assert (answer["question"], answer["complete"]) == ("a", True)
        said = [(entry["name"], entry["reason"]) for entry in answer["tables"]]
        assert said == [(ORDERS, "BadSpec"), (USERS, "BadSpec")]
    assert caplog.text.count("the question cannot be read") == 1


def test_every_question_that_cannot_be_read_is_refused_after_the_one_before_it(
    asked: AskedRun,
) -> None:
    before = asked.ask("a")
    for number in ("b", "c", "b"):
        asked.path.write_text(json.dumps({"id": number, "mode": "x"}))
        asked.run.poll()
        asked.answer(ORDERS, before, GOOD)
        assert (asked.last["question"], asked.last["complete"]) == (number, True)
    assert asked.ask("d").id == asked.last["question"]


@pytest.mark.parametrize("number", ["", "7" * 300_000, 7, None])
def test_no_answer_repeats_what_is_no_id(number: object, asked: AskedRun) -> None:
    asked.path.write_text(json.dumps({"id": number, "mode": "verify"}))
    asked.run.poll()
    assert not asked.published


def test_an_answer_has_no_more_of_a_wrong_question_than_a_message_may_have(asked: AskedRun) -> None:
    asked.path.write_text(json.dumps({"id": "a", "mode": "verify", "x" * 300_000: 1}))
    asked.run.poll()
    assert len(asked.last["tables"][0]["message"]) <= MAX_TEXT


def test_an_answer_is_removed_some_time_after_its_question(tmp_path: Path) -> None:
    asked = AskedRun(tmp_path / "question.json", answer_seconds=0.0)
    question = asked.ask("a", RunMode.VERIFY, ORDERS)
    asked.answer(ORDERS, question, GOOD)
    asked.run.poll()
    assert asked.last["complete"], "it stays as long as the question"
    asked.path.unlink()
    asked.run.poll()
    asked.run.poll()
    assert [entry is None for entry in asked.published] == [False, False, True]
    asked.ask("b")
    assert asked.last["question"] == "b"


def test_whoever_asked_has_time_to_read_the_answer(asked: AskedRun) -> None:
    asked.ask("a")
    asked.path.unlink()
    asked.run.poll()
    asked.run.poll()
    assert asked.last["question"] == "a"


def test_the_file_is_read_while_the_run_goes_on(asked: AskedRun) -> None:
    with asked.run.watch():
        RunQuestion(id="a", mode=RunMode.VERIFY).write(asked.path)
        wait_until(lambda: bool(asked.published), "it is asked")


def test_a_run_without_such_a_file_is_asked_nothing() -> None:
    run = RunQuestions(None, TAGS, jobs=SparkJobs(), publish=lambda _: None)
    with run.watch():
        run.poll()
        assert run.find(ORDERS) is None
