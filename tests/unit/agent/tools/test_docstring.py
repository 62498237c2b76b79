"""Docstrings as models read them."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.docstring import read_docstring


def forecast() -> None:
    """Say what the weather will be.

    For a whole day.

    Args:
        city: the town,
            or its code: LHR
        days (int): how many

        unit: C or F

    Returns:
        A sentence.

    Raises:
        ValueError: never shown.

    Free text after it.
    """


def test_the_section_of_arguments_describes_the_parameters() -> None:
    """Over several lines and with types; what is for programmers only is left out, the rest stays."""
    found = read_docstring(inspect.getdoc(forecast) or "", ["city", "days", "unit"])

    assert found.parameters == {"city": "the town, or its code: LHR", "days": "how many", "unit": "C or F"}
    assert found.text == (
        "Say what the weather will be.\n\nFor a whole day.\n\nReturns:\n    A sentence.\n\nFree text after it."
    )


@pytest.mark.parametrize(
    "text", ["One line.", "Args: are not here", "Args:\n    other: thing", "Note:\n    stays", "Args:"]
)
def test_what_is_no_such_section_stays(text: str) -> None:
    """Nothing that a model might need is lost."""
    assert read_docstring(text, ["city"]).text == text
    assert read_docstring(text, ["city"]).parameters == {}


@given(
    st.lists(
        st.sampled_from(["Args:", "    a: b", "  c", "", "text", "Raises:", "\tx: y", "        z"]), max_size=12
    ).map("\n".join)
)
def test_any_docstring_is_read(text: str) -> None:
    """Whatever its indentation."""
    assert set(read_docstring(text, ["a", "x"]).parameters) <= {"a", "x"}
