"""In the sandbox: runs a program and its tests, and reports how that ended. Standard library only.

It is a file that is written into the sandbox; nothing imports it. What the program prints is dropped, what it
reads is empty. The report repeats a word that only the caller knows: a program that ends itself, with
whatever status, has passed no test.
"""

import json
import os
import sys
import traceback
import types

FILES = {"code": "answer.py", "tests": "tests.py"}


def main() -> None:
    """Read the job from standard input and write the report to standard output."""
    job = json.loads(sys.stdin.buffer.read())
    report = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    stage = "code"
    found = {"word": job["word"], "passed": False}
    try:
        module = sys.modules["answer"] = types.ModuleType("answer")  # dataclasses look it up
        names = module.__dict__
        exec(compile(job["code"], FILES[stage], "exec"), names)  # noqa: S102 - that is its purpose
        stage = "tests"
        exec(compile(job["tests"], FILES[stage], "exec"), names)  # noqa: S102
    except BaseException as error:  # noqa: BLE001 - whatever the program raises
        steps = traceback.extract_tb(error.__traceback__)
        lines = [step.lineno for step in steps if step.filename == FILES[stage]]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        found |= {"stage": stage, "kind": type(error).__name__, "text": str(error)[:1000], "line": line}
    else:
        found["passed"] = True
    os.write(report, json.dumps(found).encode())
    os._exit(0)


main()
