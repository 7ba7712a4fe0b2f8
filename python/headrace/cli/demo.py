"""``headrace demo``: a model to try, made on the spot and served on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from headrace.cli.flags import ADDRESS
from headrace.cli.logs import set_up_logging
from headrace.cli.serve import serve
from headrace.config import Address, HttpConfig, ModelConfig, ServerConfig

__all__ = ["MODEL", "DemoFailed", "make_model", "run", "things_to_try"]

MODEL = "half_plus_three"

# TensorFlow's import alone takes over ten seconds on a cold disk.
_MAKING_TIMEOUT_S = 300


class DemoFailed(Exception):
    """The model could not be made."""


def run(arguments: Sequence[str]) -> int:
    """Make the model, say what to try, serve until told to stop.

    Returns:
        The server's status; 1 where the model could not be made.
    """
    parser = argparse.ArgumentParser(
        prog="headrace demo",
        description=f"Make the model {MODEL} (y = x / 2 + 3), and serve it.",
    )
    parser.add_argument(
        "--listen",
        type=ADDRESS.parse,
        default=Address(),
        metavar="HOST:PORT",
        help="where to listen (%(default)s)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="where to keep the model; otherwise it is temporary",
    )
    options = parser.parse_args(arguments)
    set_up_logging("info")
    with ExitStack() as stack:
        directory = options.directory or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="headrace-demo-")
        )
        try:
            base_path = make_model(Path(directory))
        except DemoFailed as error:
            print(f"headrace demo: {error}", file=sys.stderr)
            return 1
        model = ModelConfig(MODEL, base_path)
        return serve(
            ServerConfig((model,), HttpConfig(address=options.listen)),
            on_ready=lambda urls: print(things_to_try(urls[0], base_path), flush=True),
        )


def make_model(directory: Path) -> Path:
    """The model's base path below a directory; made unless it is there.

    TensorFlow runs in a child process, since this one is to become the front end.

    Raises:
        DemoFailed: TensorFlow is missing or failed, or the directory cannot be written.
    """
    base_path = directory.absolute() / MODEL
    version = base_path / "1"
    if (version / "saved_model.pb").exists():
        return base_path
    if importlib.util.find_spec("tensorflow") is None:
        raise DemoFailed("the model needs TensorFlow: pip install 'headrace[tensorflow-cpu]'")
    print(f"making the model {MODEL} in {base_path}; TensorFlow takes some seconds", flush=True)
    unfinished = base_path / "unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        base_path.mkdir(parents=True, exist_ok=True)
        _run_tensorflow(unfinished)
        unfinished.rename(version)
    except OSError as error:
        raise DemoFailed(f"{base_path}: {error.strerror}") from error
    return base_path


def things_to_try(url: str, base_path: Path) -> str:
    """Commands for another terminal, for the server at a URL."""
    predict = f"{url}/v1/models/{MODEL}:predict"
    lines = [
        f"{base_path} holds the model; try in another terminal",
        "",
        f"  curl -d '{{\"instances\": [1.0, 2.0, 5.0]}}' {predict}",
        f"  curl -d '{{\"inputs\": [1.0, 2.0, 5.0]}}' {predict}",
        f"  curl {url}/readyz",
        "",
        "Ctrl-C ends the demo.",
    ]
    return "\n".join(lines)


def _run_tensorflow(directory: Path) -> None:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", "headrace.cli.demo_model", str(directory)]
    try:
        subprocess.run(
            command,
            env={**os.environ, **quiet},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_MAKING_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"TensorFlow took over {_MAKING_TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise DemoFailed(f"TensorFlow could not make the model:\n{said}") from error
