"""Which of some fields are inside no other of them."""

import pytest

from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Struct, list_topmost

pytestmark = pytest.mark.unit

TEXT = Primitive("string")
COLUMNS = (
    Field(1, "id", TEXT),
    Field(2, "tags", ListOf(Field(3, "element", Struct((Field(4, "b", TEXT),))))),
    Field(5, "names", MapOf(Field(6, "key", TEXT), Field(7, "value", TEXT))),
    Field(8, "who", Struct((Field(9, "first", TEXT), Field(10, "last", TEXT)))),
)


@pytest.mark.parametrize(
    ("ids", "topmost"),
    [
        (set(), []),
        ({2, 3, 4}, [2]),
        ({3, 4}, [3]),
        ({5, 6, 7, 1}, [1, 5]),
        ({9, 10}, [9, 10]),
        ({8, 10, 4}, [4, 8]),
    ],
)
def test_a_field_is_left_out_where_one_above_it_is_among_them(
    ids: set[int], topmost: list[int]
) -> None:
    assert [field.id for field in list_topmost(COLUMNS, ids)] == topmost
