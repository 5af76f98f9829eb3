"""How docs/quick-start.md is read, and that it has what a walk needs."""

import pytest

from icdc_testing.real_cluster import quick_start
from icdc_testing.real_cluster.quick_start import PAGE, PageBlock, PageStep

pytestmark = pytest.mark.unit

TEXT = """# Page

```sh
not of a step
```

## 1. First
Save this:

```yaml cluster
a: 1
```

```sh
one \\
  two
```

## 2. Second
```text
$ look
NAME
```

## Next
```sh
not of a step
```
"""


def test_blocks_below_numbered_headings_are_what_is_typed() -> None:
    assert quick_start.read_steps(TEXT) == [
        PageStep("1. First", [PageBlock("yaml", "a: 1\n"), PageBlock("sh", "one \\\n  two\n")]),
        PageStep("2. Second", [PageBlock("text", "$ look\nNAME\n")]),
    ]


def test_the_page_has_five_steps_and_what_it_shows_begins_with_a_command() -> None:
    steps = quick_start.read_steps(PAGE.read_text(encoding="utf-8"))
    assert [step.title[0] for step in steps] == ["1", "2", "3", "4", "5"]
    assert all(step.blocks for step in steps)
    shown = [block.text for step in steps for block in step.blocks if block.language == "text"]
    assert shown
    assert all(text.startswith("$ ") for text in shown)
    assert {block.language for step in steps for block in step.blocks} == {"sh", "yaml", "text"}
