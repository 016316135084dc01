"""The programs of docs/embed-python.md."""

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "embed-python.md"


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="the tests lie outside the tree")
def test_the_programs_run():
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program, DOCUMENT.name, "exec"), {})


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="the tests lie outside the tree")
def test_the_named_tests_are_there():
    named = set(re.findall(r"`(test_\w+|Test\w+)`", DOCUMENT.read_text()))
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert named and all(re.search(rf"(def|class) {name}\b", sources) for name in named)
