"""Calls handler(event) of the main.py beside this file and writes what it returns, as one JSON document, to the
descriptor that CW_RETURN_FD names. Printed text goes where it always goes and can never pass for the result.

What main.py may rely on:
- It is imported as the module `main`: `if __name__ == "__main__"` is NOT true, as in other systems with handlers, and
  its functions can be pickled. A process that multiprocessing spawns finds the same module.
- handler(event), or handler(event, context) when it has two required parameters (context is an empty dict); sync,
  async, or returning an awaitable.
- The working directory stands first in sys.path; sys.argv is main.py with the task's arguments; stdin is the task's.
- The result: tuples and sets become arrays, keys become strings, NaN and the infinities become null, half a surrogate
  pair becomes U+FFFD. Anything else that JSON does not have is an error, and so are more than 100 levels.
- sys.exit and os._exit end the process with their code and no result. The result is written as soon as handler is done;
  threads that are no daemons delay the end as usual. Neither children nor forks of this process hold the descriptor.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MAIN = os.path.join(HERE, "main.py")
GIVEN = sys.path[:]
# The result stands within a report, and what reads it goes no deeper than 128.
DEEPEST = 100

# A json.py of the task must not take the place of the one that is needed here.
OWN = {"", HERE, os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
sys.path[:] = [entry for entry in GIVEN if entry not in OWN]
# Python has these by now, under the names by which collections.abc and importlib.machinery hand them on: to import those, or
# json with its regular expressions, would take as long again as Python's own start.
from _collections_abc import AsyncGenerator, Awaitable, Generator
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader
try:
    from _json import encode_basestring as quote, make_scanner
except ImportError:
    # No CPython, or one without the parts of json that are in C.
    from json import JSONDecoder
    from json.encoder import encode_basestring as quote
    make_scanner = None
sys.path[:] = [os.getcwd(), *(entry for entry in GIVEN if entry not in ("", HERE, os.getcwd()))]


class Reading:
    """What the scanner asks about how to read; json's own answers."""

    strict, parse_int, parse_float, parse_constant = True, int, float, float
    object_hook = object_pairs_hook = None


class NotJson(TypeError):
    """What handler returned has no place in JSON."""


class Result:
    """The descriptor, held by this process alone."""

    def __init__(self):
        number = os.environ.pop("CW_RETURN_FD", "")
        if not number.isdecimal():
            complain("CW_RETURN_FD names no descriptor: only cw-worker starts this file")
        self.fd = int(number)
        try:
            os.set_inheritable(self.fd, False)
            os.set_blocking(self.fd, True)
        except OSError as error:
            complain(f"CW_RETURN_FD names no open descriptor: {error}")
        os.register_at_fork(after_in_child=self.close)

    def close(self):
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def write(self, document):
        # A fork that came back from handler, too, has none.
        if self.fd is None:
            return
        rest = memoryview(document)
        try:
            while rest:
                rest = rest[os.write(self.fd, rest):]
            self.close()
        except BrokenPipeError:
            complain("handler's return value was not taken: it is larger than a result may be")
        except OSError as error:
            complain(f"handler's return value cannot be written: {error}")


def complain(message):
    flush()
    print(message, file=sys.__stderr__ or sys.stderr, flush=True)
    sys.exit(1)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed or replaced by the task: there is nothing to lose.


def load():
    """Runs main.py as the module `main`. No bytecode is written: the directory is read-only."""
    module = type(sys)("main")
    module.__file__ = MAIN
    module.__loader__ = SourceFileLoader("main", MAIN)
    module.__spec__ = ModuleSpec("main", module.__loader__, origin=MAIN)
    module.__spec__.has_location = True
    with open(MAIN, "rb") as file:
        code = compile(file.read(), MAIN, "exec", dont_inherit=True)
    sys.modules["main"] = module
    exec(code, module.__dict__)
    return module


def call(handler, event):
    value = handler(event, {}) if takes_context(handler) else handler(event)
    if not is_awaitable(value):
        return value
    import asyncio

    async def wait():
        return await value

    return asyncio.run(wait())


def is_awaitable(value):
    # The flag is that of a generator which types.coroutine made awaitable.
    code = getattr(value, "gi_code", None)
    return isinstance(value, Awaitable) or bool(code and code.co_flags & 0x100)


def takes_context(handler):
    """Whether it has two required parameters. An ordinary function says so itself: inspect takes longer than all else."""
    if type(handler) is type(takes_context) and not handler.__dict__:
        return handler.__code__.co_argcount - len(handler.__defaults__ or ()) == 2
    import inspect

    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is one.empty]
    return len(required) == 2


def decode(text):
    scan = make_scanner(Reading) if make_scanner else JSONDecoder().scan_once
    return scan(text, 0)[0]


def encode(value):
    text = document(value, "", set())
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def document(value, at, above):
    """The value as JSON; `at` is the way to it, `above` what it stands in."""
    if value is None or isinstance(value, bool):
        return key(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        if value.bit_length() > 1023:
            raise NotJson(f"an integer of {value.bit_length()} bits{where(at)}")
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if not isinstance(value, (dict, list, tuple, set, frozenset)):
        raise NotJson(f"{describe(value)}{where(at)}")
    if id(value) in above:
        raise NotJson(f"a {type(value).__name__} that contains itself{where(at)}")
    if len(above) >= DEEPEST:
        raise NotJson("it is nested too deeply")
    above.add(id(value))
    if isinstance(value, dict):
        items = {key(name): document(item, f"{at}[{name!r}]", above) for name, item in value.items()}
        text = "{" + ",".join([f"{quote(name)}:{item}" for name, item in items.items()]) + "}"
    else:
        text = "[" + ",".join([document(item, f"{at}[{index}]", above) for index, item in enumerate(value)]) + "]"
    above.discard(id(value))
    return text


def key(name):
    if isinstance(name, str):
        return name
    return {None: "null", True: "true", False: "false"}[name] if name is None or isinstance(name, bool) else str(name)


def describe(value):
    if isinstance(value, (AsyncGenerator, Generator)) and not is_awaitable(value):
        return f"{type(value).__name__} (handler yields; it must return, such as a list)"
    if is_awaitable(value):
        return f"{type(value).__name__} that was not awaited"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def where(at):
    shown = at if len(at) <= 200 else f"…{at[-200:]}"
    return f" at {shown}" if at else ""


def report(error):
    """The ordinary traceback, from main.py's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != MAIN:
        trace = trace.tb_next
    flush()
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    flush()
    sys.exit(1)


def run():
    result = Result()
    sys.argv[0] = MAIN
    with open(os.path.join(HERE, "event.json"), "rb") as file:
        event = decode(file.read().decode())
    try:
        handler = getattr(load(), "handler", None)
        if handler is None:
            complain("main.py defines no handler(event): the task has an event, so it must")
        if not callable(handler):
            complain(f"main.py: handler is not callable: it is of type {type(handler).__name__}")
        value = call(handler, event)
    except Exception as error:
        report(error)
    try:
        document = encode(value)
    except NotJson as error:
        complain(f"TypeError: handler returned something that is not JSON: {error}")
    flush()
    result.write(document)


if __name__ == "__main__":
    run()
elif __name__ == "__mp_main__":
    load()
