"""Numbers lifted from JSON against the general parser."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luce.serve.lifted_numbers import lift_numbers

numbers = st.one_of(
    st.none(),
    st.integers(-(10**25), 10**25),
    st.floats(-1e300, 1e300),
    st.floats(-10, 10).map(lambda x: round(x, 6)),
)
texts = st.text(max_size=8)
vectors = st.lists(numbers, max_size=6)
requests = st.fixed_dictionaries(
    {"documents": st.lists(st.fixed_dictionaries({"id": texts, "features": vectors}), max_size=4)},
    optional={"features": st.lists(vectors, min_size=1, max_size=4), "note": texts, "features ": texts},
)


def expected(request: dict) -> tuple[dict, list[list[float | None]]]:
    """What the pass should leave and what it should take, made from Python objects."""
    rows: list[list[float | None]] = []

    def strip(value):
        if isinstance(value, list):
            return [strip(item) for item in value]
        if not isinstance(value, dict):
            return value
        result = {}
        for key, item in value.items():
            if key != "features":
                result[key] = strip(item)
            elif item and isinstance(item[0], list):
                result[key] = [len(rows), len(item)]
                rows.extend(item)
            else:
                result[key] = len(rows)
                rows.append(item)
        return result

    return strip(request), rows


@settings(max_examples=300, deadline=None)
@given(requests, st.sampled_from([None, 1]), st.booleans())
def test_what_is_left_and_what_is_taken(request, indent, ascii_only):
    text = json.dumps(request, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    rest, rows = expected(request)
    lifted = lift_numbers(text)
    assert lifted is not None
    assert json.loads(lifted.text.decode("utf-8", "surrogatepass")) == rest
    assert np.diff(lifted.ends, prepend=0).tolist() == [len(row) for row in rows]
    reference = np.array([np.nan if x is None else float(x) for row in rows for x in row])
    np.testing.assert_array_equal(lifted.values, reference)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=1, max_size=5, unique=True), st.data(), st.sampled_from([None, 1]), st.booleans())
def test_objects_with_the_same_names_are_rows(names, draw, indent, ascii_only):
    rows = draw.draw(st.lists(st.lists(numbers, min_size=len(names), max_size=len(names)), min_size=1, max_size=4))
    documents = [{"id": "x", "features": dict(zip(names, row, strict=True))} for row in rows]
    text = json.dumps(documents, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    lifted = lift_numbers(text)
    assert lifted is not None
    assert lifted.names is not None
    assert [json.loads(name.decode("utf-8", "surrogatepass")) for name in lifted.names] == names
    assert json.loads(lifted.text) == [{"id": "x", "features": i} for i in range(len(rows))]
    reference = np.array([np.nan if x is None else float(x) for row in rows for x in row])
    np.testing.assert_array_equal(lifted.values, reference)
    np.testing.assert_array_equal(lifted.ends, len(names) * np.arange(1, len(rows) + 1))


@pytest.mark.parametrize(
    "other",
    [
        *('{"b": 2, "a": 1}', '{"a": 1}', '{"a": 1, "b": 2, "c": 3}', '{"a": 1, "bb": 2}', '{"a": 1, "b" 2}', "{}"),
        *(
            '{"a": 1, "b": "2"}',
            '{"a": 1, b: 2}',
            '{"a": 1, "b": [2]}',
            "[1, 2]",
            '{"a": 1, "b": 2',
            '{"a": 1, "b": 2]',
        ),
        *('{"a": 1, "b": 2,}', '{"a": 1, "\\u0062": 2}', '{"a', '{"a": 1, "b"'),
    ],
)
def test_other_objects_are_left_to_the_general_parser(other):
    first = b'[{"features": {"a": 1, "b": 2}}, {"features": '
    assert lift_numbers(first + other.encode()) is None
    assert lift_numbers(b'[{"features": [1, 2]}, {"features": {"a": 1, "b": 2}}]') is None


def test_a_name_of_zero_bytes_is_not_read_beyond_the_end():
    name = b'"' + bytes(3000)
    assert lift_numbers(b'[{"features": {' + name + b'": 1}}, {"features": {"') is None
    assert lift_numbers(b'[{"features": {' + name + b'": 1}}, {"features": {' + name) is None


def lifted_value(text: str) -> float:
    lifted = lift_numbers(b'{"features":[%s]}' % text.encode())
    assert lifted is not None
    return float(lifted.values[0])


@pytest.mark.parametrize(
    "text",
    [
        *("0.1", "-1234.5678", "1e22", "1E-5", "123456789012345e-7", "0.000001", "7.0E+3", "12345678", "0.12345678"),
        *("0.1234567890123456", "0.00000012345678901234567", "1234567890123456789", "9007199254740993", "1e23"),
        *(
            "0.30000000000000004",
            "4.9e-324",
            "2.4703282292062327e-324",
            "2.2250738585072011e-308",
            "1.7976931348623157e308",
        ),
        *("12345678901234567890123", "0.1234567890123456789012345", "100000000000000000000000000000001e-32", "0e999"),
        *("0." + "0" * 400 + "1e400", "1" + "0" * 400 + "e-400"),
    ],
)
def test_numbers_are_correctly_rounded(text):
    assert lifted_value(text) == float(text)


def test_the_sign_of_zero_is_kept():
    assert np.signbit(lifted_value("-0.0"))


@settings(max_examples=500, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=None), st.integers(-340, 310))
def test_decimals_of_any_length_and_power(number, power):
    sign, digits, exponent = number.as_tuple()
    text = "-" * sign + "".join(map(str, digits)).lstrip("0").rjust(1, "0") + f"e{exponent + power}"
    lifted = lift_numbers(b'{"features":[%s]}' % text.encode())
    # None leaves a number of more than 19 digits, of which the first 19 do not decide, to the general parser.
    assert len(digits) > 19 if lifted is None else lifted.values[0] == float(text)


def test_a_number_that_its_first_digits_do_not_decide_is_left_to_the_general_parser():
    assert lift_numbers(b'{"features": [9007199254740993.0000000001]}') is None


@pytest.mark.parametrize(("text", "value"), [("1e400", np.inf), ("-1e99999999999", -np.inf), ("1e-400", 0.0)])
def test_numbers_beyond_the_range(text, value):
    assert lifted_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *('["a"]', "[true]", "[[1], 2]", "[1, [2]]", "{}", "1", '"x"', "null", "[1,]", "[,1]", "[1 2]", "[01]", "[+1]"),
        *(
            "[.5]",
            "[1.]",
            "[1e]",
            "[1e+]",
            "[-]",
            "[nul]",
            "[NaN]",
            "[Infinity]",
            "[1",
            "[[1]",
            "[[1],]",
            "[",
            "",
            "[[[1]]]",
        ),
        *("[1.null]", "[01null]", "[-null]", "[.null]", "[1null]", "[nulll]", "[null1]", "[1e5.5]"),
        *("[0x1]", "[1]]"[:-2], "[--1]", "[1.2.3]"),
    ],
)
def test_anything_else_is_left_to_the_general_parser(text):
    assert lift_numbers(b'{"features": ' + text.encode()) is None


def test_a_text_that_ends_within_a_string_is_left_to_the_general_parser():
    assert lift_numbers(b'{"features": [1], "a') is None
    assert lift_numbers(b'{"features": [1], "a\\') is None


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text('{}[]",:features\\ 0123456789.eE-+nul', max_size=60).map(str.encode)
    | st.lists(
        st.sampled_from(['"features":', '{"a":1', "{", "}", "[", "]", ",", '"a":', "1.5", "null", '"', " ", "\0"]),
        max_size=20,
    ).map(lambda parts: "".join(parts).encode())
)
def test_no_bytes_do_harm(text):
    lifted = lift_numbers(text)
    assert lifted is None or len(lifted.values) <= len(text)
