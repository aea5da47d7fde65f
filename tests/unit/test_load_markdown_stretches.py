"""Reading only what needs it: marks by stretches equal one parse of the whole text, whatever stands beside what."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.load.markdown import Mark, marks_of, parsed

PLAIN = "para text|two words|  indented|   text| para|2024 was|3.5 pct|5|\u00a0x|中文|\u3000z|\x0bx|\u2028y|=|:|~||||  |\t"
HEADINGS = "# H|## H2 ##|#tag|####### no|# |#|#\tT| # H3|===|---|* * *|***|_ _ _|**"
LISTS = "- item|* item|+ x|-|1. one|10) ten|1.|- # in|- ```|1. ```|- <!-- x|   - nested|    - deep|- [ ] t|-\tx|> quote|> # q|>"
BLOCKS = (
    "    code|\tcode|  ```|```|````|~~~|   ~~~| ```|```py|``` a`b|<div>|</div>|<!-- c|-->|<script>|</script>|<?php|[ref]: /u|[ref]: /u 'ti"
)
SPANS = "* *x|__bold__ x|**b** x|*i* x|`code` x|_x_|<b>x</b>|word <!-- x|tle'|![img](x)"
TABLES = ["| a | b |", "a | b", "|---|---|", "--|--", ":--|"]
LINES = [*(line for kind in (PLAIN, HEADINGS, LISTS, BLOCKS, SPANS) for line in kind.split("|")), *TABLES]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=14))
@settings(max_examples=400, deadline=None)
@example(["<!-- c", "", "text", "# H", "-->"])
@example(["  ```", "", "text", "# H", "```", "# H2"])
@example(["- a", "", "  # in", "# out"])
@example(["```", "  "])
def test_marks_by_stretches_equal_the_parse_of_the_whole_text(lines: list[str]) -> None:
    whole, _ = parsed(lines, 0, len(lines))
    assert visible(marks_of(lines), lines) == visible(whole, lines)


def visible(marks: list[Mark], lines: list[str]) -> list[Mark]:
    """The marks without blank lines at their ends: an unclosed fence may or may not count those, and no block shows them."""
    return [mark._replace(lines=(mark.lines[0], end_of(mark, lines))) for mark in marks]


def end_of(mark: Mark, lines: list[str]) -> int:
    start, end = mark.lines
    while end > start and not lines[end - 1].strip():
        end -= 1
    return end
