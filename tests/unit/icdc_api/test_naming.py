import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_api import naming
from icdc_api.errors import BadSpec

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("shop.orders", ("shop", "orders")),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b c`", ("a", "b c")),
        ("a.`b``c`", ("a", "b`c")),
        ("größe.übersicht", ("größe", "übersicht")),
    ],
)
def test_a_table_name_has_parts(name: str, parts: tuple[str, ...]) -> None:
    assert naming.parse_table_name(name) == parts


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "orders",
        "a.",
        ".a",
        "a..b",
        "a b.c",
        "`a.b",
        "a.``",
        "`a`b.c",
        "a.b ",
        "a.b`",
        "``.a",
    ],
)
def test_a_name_that_is_no_table_name_is_refused(name: str) -> None:
    with pytest.raises(BadSpec, match=r"is not a table name: it must be namespace\.table"):
        naming.parse_table_name(name)


@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("shop.orders", "shop.orders"),
        ("Shop.Orders", "shop.orders"),
        ("`my shop`.`a/b:c`", "my-shop.a-b-c"),
        ("_a.b", "a.b"),
        ("`-+_x`.y", "x.y"),
        ("`a\tb`.c", "a-b.c"),
        ("a.b-000001", "a.b-000001"),
    ],
)
def test_the_default_index_is_the_table_name_made_valid(table: str, index: str) -> None:
    assert naming.derive_index(table) == index


@pytest.mark.parametrize("table", ["`--`.`++`", "a." + "b" * 250, "`icdc-state`.``"])
def test_a_table_without_a_possible_index_name_is_refused(table: str) -> None:
    with pytest.raises(BadSpec):
        naming.derive_index(table)


_PART = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(st.lists(_PART, min_size=2, max_size=3))
def test_a_default_index_is_always_valid_or_refused(parts: list[str]) -> None:
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    assert naming.parse_table_name(name) == tuple(parts)
    try:
        index = naming.derive_index(name)
    except BadSpec:
        return
    assert naming.find_index_problem(index) is None


@pytest.mark.parametrize(
    "index", ["orders", "a.b", ".hidden", "orders-2", "größe", "a" * 242, "1", "a+b_c"]
)
def test_a_valid_index_name_has_no_problem(index: str) -> None:
    assert naming.find_index_problem(index) is None


@pytest.mark.parametrize("character", [*'\\/*?"<>|,#: ', "\n", "\x01", "A", "É"])
def test_an_index_name_may_not_hold_some_characters(character: str) -> None:
    assert naming.find_index_problem(f"a{character}b") == naming.INDEX_RULE


@pytest.mark.parametrize("index", ["", ".", "..", "-a", "_a", "+a"])
def test_an_index_name_may_not_begin_with_everything(index: str) -> None:
    assert naming.find_index_problem(index) == naming.INDEX_RULE


def test_the_bytes_of_an_index_name_leave_room_for_what_is_made_from_it() -> None:
    assert naming.find_index_problem("é" * 121) is None
    assert naming.find_index_problem("é" * 122) == "an index name has at most 242 bytes"
    assert len(naming.name_dead_letters_index("a" * 242)) == 255


def test_physical_indices_are_numbered() -> None:
    assert naming.name_physical_index("orders", 1) == "orders-000001"
    assert naming.name_physical_index("orders", 1234567) == "orders-1234567"


@pytest.mark.parametrize(
    ("physical", "number"),
    [
        ("orders-000012", 12),
        ("orders-1234567", 1234567),
        ("orders", None),
        ("orders-12", None),
        ("orders-dead-letters", None),
        ("orders-2-000001", None),
        ("other-000001", None),
    ],
)
def test_the_number_of_a_physical_index_is_read(physical: str, number: int | None) -> None:
    assert naming.parse_physical_number("orders", physical) == number


@pytest.mark.parametrize(
    ("index", "alias"),
    [
        ("a-dead-letters", "a"),
        ("a-000001", "a"),
        ("a-000001-1234567", "a-000001"),
        ("a", None),
        ("a-1", None),
    ],
)
def test_the_alias_that_a_name_is_made_from_is_known(index: str, alias: str | None) -> None:
    assert naming.find_base_alias(index) == alias


def test_other_names_are_built_once() -> None:
    assert naming.name_tag("orders") == "icdc-orders"
    key = naming.compute_tag_key("uuid", "default/shop")
    assert naming.name_tag("orders", key) == f"icdc-orders-{key}"
    keys = {
        key,
        naming.compute_tag_key("uuid", "default/shop2"),
        naming.compute_tag_key("other", "default/shop"),
    }
    assert len(keys) == 3
    assert naming.is_tag_of(naming.name_next_tag(f"icdc-orders-{key}"), key)
    assert not naming.is_tag_of("icdc-orders-next", key)
    assert naming.find_tagged_alias(f"icdc-orders-{key}") == "orders"
    assert naming.find_tagged_alias(naming.name_next_tag(f"icdc-orders-{key}")) is None
    assert naming.find_tagged_alias("icdc-orders") is None, "it has no key"
    assert naming.name_run("shop", letter="e", sequence=1, attempt=2) == "shop-e1-2"
    assert naming.build_owner_key("web", "shop") == "web/shop"
    assert naming.build_owner_key(None, "shop") == "default/shop"
