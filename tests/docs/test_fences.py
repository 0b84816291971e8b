"""The rules of code fences, and what the pages do with them."""

import re

import fences
import pytest
import run_page

MAX_NOT_EXECUTED = 10


def write(folder, text):
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_at_most_ten_fences_are_not_executed():
    skipped = [
        (fences.name_of(page), fence) for page in fences.pages() for fence in fences.of(page) if fence.not_executed
    ]
    assert len(skipped) <= MAX_NOT_EXECUTED, skipped


ESCAPING = ("py", "python3", "bash", "shell", "console", "{code-block}", "{code}", "{doctest}", "{literalinclude}")


def test_no_code_escapes_execution():
    """A name such as bash, or a directive, would show code that nothing executes.

    The pages on extension points are followed literally by `test_extension_pages.py`: each block with a caption is
    written to the file of this name, and bash blocks are run.
    """
    for page in fences.pages():
        followed = fences.name_of(page).startswith("howto/add_")
        for fence in fences.of(page):
            if followed and (fence.language == "bash" or fence.code.startswith(":caption: ")):
                continue
            assert fence.language not in ESCAPING, f"{fences.name_of(page)}:{fence.line}"


def test_fences_are_found_with_their_comments():
    text = (
        "x\n\n<!-- show: output -->\n```python\nprint(1)\n```\n\n- item\n  ```sh\n  ls\n  ```\n\n```text\n>>> no\n```\n"
    )
    shown, indented, plain = fences.parse(text)
    assert (shown.language, shown.code, shown.line, shown.show) == ("python", "print(1)\n", 5, "output")
    assert (indented.language, indented.code) == ("sh", "ls\n")
    assert not plain.executed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- show: table -->\n```python\n1\n```\n", "show must be one of figure, output"),
        ("<!-- not executed: -->\n```sh\nls\n```\n", "give the reason"),
        ("<!-- show: output -->\n\nText.\n", "not followed by a fence"),
        ("<!-- show: output -->\n```text\nls\n```\n", "before a fence of text"),
        ("```python\n1\n", "the fence does not end"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused(text, message):
    with pytest.raises(fences.PageError, match=message):
        fences.parse(text)


def test_inspect_finds_the_source_of_a_function(tmp_path):
    page = write(
        tmp_path,
        "```python\ndef step(g, lr):\n    return lr * g\n```\n"
        "```python\nimport inspect\nassert inspect.getsource(step).endswith('return lr * g\\n')\n```\n",
    )
    assert run_page.in_process(page)[0] == ""


def test_fences_share_a_namespace_and_a_folder(tmp_path):
    page = write(
        tmp_path,
        "```python\nx = 20\nopen('made', 'w').close()\n```\n```pycon\n>>> x + 22\n42\n>>> y = 3\n```\n"
        "```sh\n# a comment\nls made\n```\n```python\nassert y == 3\n```\n",
    )
    assert run_page.in_process(page)[0] == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n```python\nx = 1\n\nx / 0\n```\n", r"page.md:3: (.|\n)*line 5(.|\n)*ZeroDivisionError"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", r"page.md:2: (.|\n)*Expected:\n    3\nGot:\n    2"),
        ("```sh\ntrue\nfalse\n```\n", "exit code 1 of false"),
        ("<!-- show: figure -->\n```python\nfigure = 3\n```\n", "the variable figure is int"),
        ("<!-- show: output -->\n```python\nx = 3\n```\n", "printed nothing"),
        ("```python\nraise SystemExit\n```\n", "SystemExit"),
    ],
)
def test_an_error_fails_the_page(tmp_path, text, message):
    page = write(tmp_path, text)
    assert re.search(message, run_page.in_process(page)[0])
