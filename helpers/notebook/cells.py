"""Cells of a notebook, as the JSON of nbformat 4.5."""

import ast
import re
from typing import Any

OPEN, CLOSE = "\ue000", "\ue001"
"""Private characters that mark a glued number until the braces around it are doubled."""


def say(text: str) -> str:
    """Code that shows a paragraph with its glued numbers: `helpers.page.say`."""
    template = _template(text.strip("\n"))
    if '"""' in template:
        return f"say({template!r})"
    return f'say(r"""\n{template}\n""")'


def written(text: str) -> str:
    """A text as an expression of Python: a literal, or `say` of it where numbers are glued in."""
    return f"say({_template(text)!r}).markdown" if OPEN in text else repr(text)


def _template(text: str) -> str:
    """Text with the fields of `say` in it."""
    doubled = text.replace("{", "{{").replace("}", "}}")
    return doubled.replace(OPEN, "{").replace(CLOSE, "}")


def cell(kind: str, source: str, id_: str) -> dict[str, Any]:
    """One notebook cell; Colab reads its id from the metadata."""
    lines = source.splitlines(keepends=True)
    return {"cell_type": kind, "id": id_, "metadata": {"id": id_}, "source": lines}


def code_cell(source: str, id_: str, tags: list[str]) -> dict[str, Any]:
    """One code cell without outputs, hidden as its tags say."""
    made = cell("code", source, id_)
    made |= {"execution_count": None, "outputs": []}
    if tags:
        made["metadata"]["tags"] = tags
    jupyter = {}
    if {"hide-input", "remove-input"} & set(tags):
        made["metadata"]["cellView"] = "form"
        jupyter["source_hidden"] = True
    if {"hide-output", "remove-output"} & set(tags):
        jupyter["outputs_hidden"] = True
    if jupyter:
        made["metadata"]["jupyter"] = jupyter
    return made


def kernel_of(source: str) -> str:
    """The kernel that a cell stands for: `%%cuda NAME ...` with no code below; else "".

    A comment has to stand there: IPython runs no cell magic over nothing.
    """
    match = re.fullmatch(r"%%cuda[ \t]+(\w+)[^\n]*(?:\n[ \t]*(?://[^\n]*)?)+", source)
    return match[1] if match else ""


def glued_names(source: str) -> list[str]:
    """Patterns of the names that a cell glues; a computed name matches anything it could be."""
    names: list[str] = []
    if source.startswith("%%"):  # below the line of a cell magic stands no Python
        return names
    plain_source = "\n".join(
        "pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()
    )
    try:
        tree = ast.parse(plain_source)
    except SyntaxError:
        return []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id != "glue":
            continue
        for keyword in node.keywords:  # glue(gain=...), and glue(**anything)
            names.append((re.escape(keyword.arg) if keyword.arg else r"\w+") + LEAF)
        for argument in node.args[:1]:
            match argument:
                case ast.Constant(value=str(name)):
                    names.append(re.escape(name) + LEAF)
                case ast.JoinedStr(values=values):
                    texts = [p.value if isinstance(p, ast.Constant) else None for p in values]
                    parts = [r"\w+" if text is None else re.escape(str(text)) for text in texts]
                    names.append("".join(parts) + LEAF)
                case _:
                    names.append(r"\w+" + LEAF)
    return names


LEAF = r"(?:\.\w+)*"
"""What may follow a glued name: the path to a number inside what was glued."""
