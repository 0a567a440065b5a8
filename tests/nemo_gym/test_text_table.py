"""Text tables."""

from nemo_gym.text_table import table


def test_a_label_cannot_break_a_line_of_the_table():
    assert table(["A"], [["x\ny\x1b[31m"]]) == "A\nx\\ny\\x1b[31m"


def test_a_table_that_is_wider_than_the_terminal_has_its_first_column_on_lines_of_its_own():
    columns, rows = ("ID", "WHAT", "N"), [("a" * 30, "x", "1"), ("a" * 30, "yy", "22"), ("b\n", "z", "3")]
    assert table(columns, rows, 200) == table(columns, rows)
    assert table(columns, rows, 40) == table(columns, rows)
    assert table(columns, rows, 39).splitlines() == [
        "  WHAT  N", "a" * 30, "  x     1", "  yy    22", "b\\n", "  z     3",
    ]  # fmt: skip
