from __future__ import annotations

import subprocess
import sys

import pytest

import headrace
from headrace.cli import docs, main


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=60
    )


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([argument])
    except SystemExit as stop:
        status = int(stop.code or 0)
    assert status == 0
    assert capsys.readouterr().out == f"headrace {headrace.__version__}\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--help"])
    assert raised.value.code == 0
    out = capsys.readouterr().out
    for command in ("serve", "predict", "demo", "docs", "version"):
        assert f"\n  {command} " in out


@pytest.mark.parametrize("arguments", [[], ["srve"], ["--port=1"]])
def test_no_or_unknown_command_is_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert "usage: headrace" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "predict", "demo", "docs"])
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main([command, "--help"])
    assert raised.value.code == 0
    assert f"headrace {command}" in capsys.readouterr().out


def test_module_runs_and_imports_neither_tensorflow_nor_the_server() -> None:
    code = (
        "import sys; sys.argv[1:] = ['version']; import runpy\n"
        "try: runpy.run_module('headrace', run_name='__main__')\n"
        "except SystemExit as stop: assert not stop.code\n"
        "print(sorted({'tensorflow', 'uvloop', 'asyncio', 'http.client'} & sys.modules.keys()))"
    )
    ran = run_python(code)
    assert ran.stderr == ""
    assert ran.stdout == f"headrace {headrace.__version__}\n[]\n"


def test_reader_that_stops_reading_is_no_error() -> None:
    # The pipe's reading end is closed before the program writes.
    code = (
        "import os, sys, headrace.cli\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "sys.exit(headrace.cli.main(['docs', 'quickstart']))"
    )
    ran = run_python(code)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(docs, "run", interrupted)
    assert main(["docs"]) == 130
