from __future__ import annotations

import re
from pathlib import Path

from headrace.cli.docs import pages

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_first_two_commands_run_the_demo_and_the_tests() -> None:
    first, second = re.findall(r"```sh\n(.*?)\n```", README, re.DOTALL)[:2]
    assert first.startswith("python3 -m venv .venv && ")
    assert first.endswith(".venv/bin/headrace demo")
    assert second.endswith("python -m pytest")
    assert f"<!-- test command -->\n```sh\n{second}\n```" in README


def test_table_of_pages_is_complete() -> None:
    assert re.findall(r"^\| `headrace docs ([\w-]+)`", README, re.MULTILINE) == sorted(
        pages(), key=README.index
    )


def test_packages_on_the_map_exist() -> None:
    tree = README.partition("python/headrace/\n")[2].partition("tests/")[0]
    names = re.findall(r"(\w+)/(?=\s)", tree)
    assert set(names) == {
        path.name
        for path in (ROOT / "python" / "headrace").iterdir()
        if path.is_dir() and path.name not in {"codec", "__pycache__"}
    }


def test_readme_names_no_registry_and_no_path_of_one_machine() -> None:
    assert not re.search(r"/(work|root|home|tmp)/|pypi\.org|pythonhosted", README)
