"""Small plots as inline SVG: bars over time, and how far something is.

Without scripts, styles in attributes or assets, which the page's policy refuses: colours are
classes of the style sheet. Each has its numbers as text too, as a person may not see it. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icdc_cli.commands.ui.elements import Element, make

WIDTH, HEIGHT = 240, 56
"""Of a plot of bars, in units of its own; the page scales it."""
MAX_BAR = 18
"""Width of a bar where there are few."""
GAP_WIDTH = 2
PROGRESS_WIDTH, PROGRESS_HEIGHT = 160, 8


@dataclass(frozen=True)
class Bar:
    """One value of a plot."""

    value: float
    """0 or more."""
    label: str
    """What is shown of it under the pointer: when, what, how much."""
    tone: str = "plain"
    """A class of the style sheet."""


def draw_bars(bars: Sequence[Bar], label: str) -> Element:
    """Return bars in the order given, the highest as high as the plot; `label` is its text."""
    highest = max((bar.value for bar in bars), default=0) or 1
    step = min(MAX_BAR + GAP_WIDTH, WIDTH / max(1, len(bars)))
    # From the right, where the newest is: a few bars then stand where the eye looks for now.
    start = WIDTH - step * len(bars)
    drawn = [
        _draw_bar(bar, start + step * position, step - GAP_WIDTH, highest)
        for position, bar in enumerate(bars)
    ]
    base = make("line", class_="base", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT)
    return _draw_frame(WIDTH, HEIGHT, label, *drawn, base, class_="bars")


def _draw_bar(bar: Bar, x: float, width: float, highest: float) -> Element:
    # At least a line: a batch of one row beside one of a million is there, too.
    height = max(1.0, bar.value / highest * (HEIGHT - 2)) if bar.value else 0.0
    return make(
        "rect",
        make("title", bar.label),
        class_=bar.tone,
        x=_format(x),
        y=_format(HEIGHT - 1 - height),
        width=_format(max(1.0, width)),
        height=_format(height),
    )


def draw_progress(done: int, total: int | None, label: str) -> Element:
    """Return a line that is filled as far as `done` of `total`; empty where that is unknown."""
    share = min(1.0, done / total) if total else 0.0
    size = {"height": PROGRESS_HEIGHT, "rx": PROGRESS_HEIGHT // 2}
    return _draw_frame(
        PROGRESS_WIDTH,
        PROGRESS_HEIGHT,
        label,
        make("rect", class_="rail", width=PROGRESS_WIDTH, **size),
        make("rect", class_="done", width=_format(PROGRESS_WIDTH * share), **size),
        class_="progress",
    )


def _draw_frame(width: int, height: int, label: str, *children: Element, class_: str) -> Element:
    return make(
        "svg",
        *children,
        class_=class_,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        # Without it, a bar is as thin as the page is narrow, and taller than it is.
        preserveAspectRatio="xMaxYMid meet",
    )


def _format(value: float) -> str:
    return f"{value:.1f}"
