"""The tables of the documentation say what the code says."""

from __future__ import annotations

import pytest
from reference_tables import TABLES, names_in, pages, rewritten

REMEDY = "run `python tests/reference_tables.py`"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_code(page):
    text = page.read_text(encoding="utf-8")
    assert text == rewritten(text), f"{page.name} is out of date; {REMEDY}"


def test_every_table_stands_in_one_place():
    shown = [name for page in pages() for name in names_in(page.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(TABLES)


def test_a_stale_table_is_replaced_and_the_rest_kept():
    text = "before\n<!-- table: profiles -->\n| old |\n<!-- end of table -->\nafter\n"
    anew = rewritten(text)
    assert anew.startswith("before\n<!-- table: profiles -->\n| profile |")
    assert anew.endswith("|\n<!-- end of table -->\nafter\n")
    assert "| `medium` | 0.3 | 0.2 |" in anew
    assert "old" not in anew


def test_an_unknown_table_is_refused():
    with pytest.raises(KeyError, match="profils"):
        rewritten("<!-- table: profils -->\n<!-- end of table -->\n")
