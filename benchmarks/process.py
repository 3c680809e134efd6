"""Running a function in a process of its own: fresh memory, thread pools and environment.

What it prints, compilers' warnings and runtimes' logs among it, is kept and shown if it fails.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class ChildError(RuntimeError):
    """The function raised, or its process died; the message has its last lines."""


def in_process(
    function: Callable[..., Any], *arguments: Any, advance: Callable[[], None] | None = None
) -> Any:
    """What `function(*arguments)` returns in a fresh interpreter.

    Args:
        function: of a module, so that the other process finds it.
        advance: called here whenever the function calls its keyword argument of that name.
    Raises:
        ChildError: see there.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile("r", suffix=".log", errors="replace") as log:
        child = context.Process(
            target=_child,
            args=(sender, log.name, function, arguments, advance is not None),
            daemon=True,
        )
        child.start()
        sender.close()
        try:
            while (message := receiver.recv()) is None:
                if advance is not None:
                    advance()
        except EOFError:
            message = None
        child.join()
        if message is not None and child.exitcode == 0:
            return message[0]
        raise ChildError(
            f"{function.__name__} failed, exit code {child.exitcode}:\n{log.read()[-4000:]}"
        )


def _child(
    sender: Connection,
    log: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    advances: bool,
) -> None:
    warnings.simplefilter("ignore")
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    keywords = {"advance": lambda: sender.send(None)} if advances else {}
    try:
        sender.send((function(*arguments, **keywords),))
    except Exception:
        os.write(file, traceback.format_exc().encode())
        os._exit(1)
