import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.launch.expression import Value, parse_expression

NAMES: dict[str, Value] = {"A": 12, "B": 5, "KIND": "half"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A + B * 2", 22),  # 12 + 10
        ("(A - B) % 4", 3),  # 7 % 4
        ("A // B", 2),
        ("A / 4", 3),  # a quotient that is an integer stays one
        ("A / 5", 2.4),
        ("2 ** 10", 1024),
        ("-A", -12),
        ("not A", 0),
        ("A > 10 and B > 10", 0),
        ("A > 10 or B > 10", 1),
        ("1 < B < A", 1),
        ("1 < A < B", 0),
        ("min(A, B, 3)", 3),
        ("max(A, B)", 12),
        ("abs(B - A)", 7),
        ("ceil_div(A, B)", 3),
        ("round_up(A, B)", 15),
        ("A if KIND == 'half' else B", 12),
        ("0 and A / 0", 0),  # the right side is not looked at
    ],
)
def test_the_grammar_computes(text: str, value: float) -> None:
    assert parse_expression(text).value(NAMES) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "A.real",
        "(lambda: 1)()",
        "[1, 2]",
        "A[0]",
        "open('x')",
        "min(A, key=abs)",
        "f'{A}'",
        "A := 3",
        "1j",
        "None",
        "A +",
        "",
        "A & B",
        "1" * 1001,
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_everything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C", "unknown name 'C'"),
        ("A // (B - 5)", "divides by zero"),
        ("A % 0", "divides by zero"),
        ("10 ** 30", "too large"),
        ("2 ** 100", "exponent"),
        ("9 ** 9 ** 9", "exponent"),
        ("KIND * 2", "no number"),
        ("(0 - 1) ** 0.5", "no real number"),
        ("KIND < A", "not supported"),
        ("ceil_div(A)", "argument"),
    ],
)
def test_a_value_that_cannot_be_had_names_the_expression(text: str, message: str) -> None:
    with pytest.raises(InputError, match="expression") as caught:
        parse_expression(text).value(NAMES)
    assert message in str(caught.value)


def test_an_integer_is_asked_for_and_a_fraction_refused() -> None:
    assert parse_expression("A / 4").integer(NAMES) == 3
    with pytest.raises(InputError, match=r"2\.4 and no integer"):
        parse_expression("A / B").integer(NAMES)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(["+", "-", "*", "<", ">=", "==", "!="]))
def test_operators_are_those_of_integers(left: int, right: int, operator: str) -> None:
    expected = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "<": int(left < right),
        ">=": int(left >= right),
        "==": int(left == right),
        "!=": int(left != right),
    }[operator]
    assert parse_expression(f"X {operator} Y").value({"X": left, "Y": right}) == expected


@pytest.mark.parametrize("text", ["+".join(["1"] * 450), "-" * 900 + "1"])
def test_an_expression_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"nested too deeply|is no expression"):
        parse_expression(text).integer({})
