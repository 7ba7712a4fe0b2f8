"""``headrace bench``: load for a server, and what became of it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from headrace.bench import report
from headrace.bench.arrivals import Arrivals
from headrace.bench.bodies import input_specs, make_body
from headrace.bench.fleet import Outcome, RunFailed, measure
from headrace.bench.plan import OpenLoop, Plan, Trust
from headrace.bench.plot import FORMATS, plot_percentiles
from headrace.bench.target import Target, TargetFailed, parse_header
from headrace.cli.flags import COUNT, FRACTION, SECONDS
from headrace.cli.predict import REFUSED, SERVER_FAILED, UNREACHABLE
from headrace.errors import SpecError

__all__ = ["make_plan", "run"]

_DURATION_S = 10.0
_OPEN_CONNECTIONS = 128
_CLOSED_CONNECTIONS = 8
# Without a terminal, whose last line can be written over, one line in so many seconds is enough.
_LINE_EVERY_S = 5.0

T = TypeVar("T")


def run(arguments: Sequence[str]) -> int:
    """Send requests, print what came of them.

    Returns:
        0 for a run, or one of the statuses of ``headrace predict`` where the server cannot be
        reached or refuses the first request; 1 also where an extra is missing.

    Raises:
        SystemExit: Status 2 after a usage message.
    """
    parser = _make_parser()
    options = parser.parse_args(arguments)
    if missing := _missing_extra(options.plot is not None):
        return _fail(UNREACHABLE, missing)
    try:
        target, plan = make_plan(options)
    except (ValueError, SpecError) as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{error.filename or options.cacert}: {error.strerror or error}")
    except TargetFailed as error:
        return _fail(_status(error), str(error))
    show = (lambda outcome: None) if options.quiet else _Progress()
    try:
        outcome = measure(plan, show)
    except RunFailed as error:
        return _fail(UNREACHABLE, str(error))
    finally:
        if isinstance(show, _Progress):
            show.end()
    return _write(options, target.url.geturl(), outcome)


def make_plan(options: argparse.Namespace) -> tuple[Target, Plan]:
    """The run that the command line asks for; the server has answered its first request.

    Raises:
        ValueError: The options contradict one another.
        SpecError: No body can be made.
        OSError: A file cannot be read.
        TargetFailed: The server cannot be reached, or refuses the request.
    """
    trust = Trust(str(options.cacert or ""), verify=not options.insecure)
    trust.context()  # complains of the file
    headers = list(options.header)
    if options.token_file is not None:
        headers.append(("Authorization", f"Bearer {_token(options.token_file)}"))
    target = Target.parse(options.url, options.model, headers, trust)
    if options.connections is None:
        closed = options.rate is None
        options.connections = max(
            options.processes, _CLOSED_CONNECTIONS if closed else _OPEN_CONNECTIONS
        )
    if options.connections < options.processes:
        raise ValueError("each of the --processes needs one of the --connections at least")
    duration = options.duration
    if duration is None and options.requests is None:
        duration = _DURATION_S
    bodies = _bodies(options, target)
    target.try_once(bodies[0], options.timeout)
    rate = options.rate
    return target, Plan(
        host=target.host,
        port=target.port,
        tls=target.tls,
        messages=tuple(map(target.message, bodies)),
        connections=options.connections,
        open_loop=OpenLoop(rate, options.arrivals, options.seed) if rate is not None else None,
        warmup_s=options.warmup,
        duration_s=duration,
        requests=options.requests,
        timeout_s=options.timeout,
        processes=options.processes,
    )


def _bodies(options: argparse.Namespace, target: Target) -> list[bytes]:
    if options.body:
        return [
            sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
            for file in options.body
        ]
    specs = input_specs(target.metadata(options.timeout), options.signature)
    return [
        make_body(
            specs,
            options.signature,
            rows=options.rows,
            extent=options.extent,
            seed=options.seed + number,
        )
        for number in range(options.bodies)
    ]


def _token(file: Path) -> str:
    """The first token of a file such as ``serve --auth_token_file`` takes."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return line.strip()
    raise ValueError(f"{file}: holds no token")


class _Progress:
    """A line on standard error that is written over, or now and then a new one."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._at = self._shown_at = time.monotonic()

    def __call__(self, outcome: Outcome) -> None:
        now = time.monotonic()
        line = report.live_line(outcome, now, now - self._at)
        self._at = now
        if self._terminal:
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        elif now - self._shown_at >= _LINE_EVERY_S:
            self._shown_at = now
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _write(options: argparse.Namespace, url: str, outcome: Outcome) -> int:
    figures = report.figures(url, outcome)
    text = json.dumps(figures, indent=1)
    to_stdout = options.json is not None and str(options.json) == "-"
    print(text if to_stdout else report.table(url, outcome))
    try:
        if options.json is not None and not to_stdout:
            options.json.write_text(text + "\n", encoding="utf-8")
        if options.plot is not None:
            _plot(options.plot, url, figures)
    except OSError as error:
        return _fail(UNREACHABLE, f"{error.filename}: {error.strerror}")
    return 0


def _plot(file: Path, url: str, figures: dict[str, object]) -> None:
    # As written to --json, so that a plot can be drawn again from there.
    latency, service = figures["latency"], figures["service"]
    assert isinstance(latency, dict)
    assert isinstance(service, dict)
    curves = {"latency": latency["curve"]}
    if figures["loop"] == "open":
        curves["from sending"] = service["curve"]
    plot_percentiles(file, url, curves)


def _missing_extra(plot: bool) -> str:
    modules = ["hdrh", *(["matplotlib"] if plot else [])]
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if not absent:
        return ""
    return f"{' and '.join(absent)} is not installed: pip install 'headrace[bench]'"


def _status(error: TargetFailed) -> int:
    if error.status is None:
        return UNREACHABLE
    return REFUSED if 400 <= error.status < 500 else SERVER_FAILED


def _fail(status: int, message: str) -> int:
    print(f"headrace bench: {message}", file=sys.stderr)
    return status


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """For argparse, which would hide what a ValueError says."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _plot_file(text: str) -> Path:
    if Path(text).suffix.lower() not in FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a name that ends with .png or .svg")
    return Path(text)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace bench",
        description="Put a server under load, and print how many answers came and how late.",
        epilog="Exit status: 0 a run; 1 no server, or an extra is missing; 2 usage; "
        "4, 5 the first request was refused (4xx) or failed (5xx). "
        "`headrace docs benchmarking` says more.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("url", metavar="URL", help="server, or the whole URL up to the verb")
    add("--model", metavar="NAME", help="name of the model, where the URL has no path")
    group = parser.add_argument_group("how requests follow one another")
    add = group.add_argument
    add(
        "--rate",
        type=SECONDS.parse,
        metavar="NUMBER",
        help="open loop: so many requests a second are due, whatever the server does; "
        "without it, a closed loop: each connection sends when it has its answer",
    )
    add(
        "--arrivals",
        type=_checked(Arrivals),
        default=Arrivals.POISSON,
        metavar="poisson|constant",
        help="of an open loop (poisson)",
    )
    add(
        "--connections",
        type=COUNT.parse,
        metavar="COUNT",
        help=f"{_CLOSED_CONNECTIONS} in a closed loop; "
        f"in an open one at most so many requests at a time ({_OPEN_CONNECTIONS})",
    )
    add(
        "--duration",
        type=SECONDS.parse,
        metavar="SECONDS",
        help=f"how long, after the warm-up ({_DURATION_S:g}, unless --requests are given)",
    )
    add("--requests", type=COUNT.parse, metavar="COUNT", help="how many, after the warm-up")
    add(
        "--warmup",
        type=FRACTION.parse,
        default=2.0,
        metavar="SECONDS",
        help="at the beginning, counts for nothing (%(default)g)",
    )
    add(
        "--timeout",
        type=SECONDS.parse,
        default=30.0,
        metavar="SECONDS",
        help="longest wait for an answer (%(default)g)",
    )
    add(
        "--processes",
        type=COUNT.parse,
        default=1,
        metavar="COUNT",
        help="of the load generator, where one is too slow (%(default)s)",
    )
    add(
        "--seed",
        type=COUNT.parse,
        default=1,
        metavar="NUMBER",
        help="of random arrivals and values (%(default)s)",
    )
    group = parser.add_argument_group("what is sent")
    add = group.add_argument
    add(
        "--body",
        action="append",
        type=Path,
        metavar="FILE",
        help="- is standard input; several are sent in turn; "
        "without it, bodies are made from the model's metadata",
    )
    add(
        "--bodies",
        type=COUNT.parse,
        default=16,
        metavar="COUNT",
        help="how many different ones are made (%(default)s)",
    )
    add(
        "--rows",
        type=COUNT.parse,
        default=1,
        metavar="COUNT",
        help="first extent of an input that is made, where it is free (%(default)s)",
    )
    add(
        "--extent",
        type=COUNT.parse,
        default=1,
        metavar="COUNT",
        help="each other extent that is free (%(default)s)",
    )
    add(
        "--signature",
        default="serving_default",
        metavar="NAME",
        help="that bodies are made for (%(default)s)",
    )
    add(
        "--header",
        action="append",
        type=_checked(parse_header),
        default=[],
        metavar="'NAME: VALUE'",
        help="one more; several are possible",
    )
    add(
        "--token_file",
        "--token-file",
        type=Path,
        metavar="FILE",
        help="send the first bearer token of a file",
    )
    add("--cacert", type=Path, metavar="FILE", help="certificates in PEM to trust with https")
    add("--insecure", action="store_true", help="trust any certificate")
    group = parser.add_argument_group("what comes out")
    add = group.add_argument
    add("--json", type=Path, metavar="FILE", help="every figure; - is standard output")
    add(
        "--plot",
        type=_plot_file,
        metavar="FILE",
        help="latency by percentile, as .png or .svg",
    )
    add("--quiet", action="store_true", help="no progress on standard error")
    return parser
