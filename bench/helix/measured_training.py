"""A training in an engine's interpreter that prints how much its process has grown; the arguments are those
of ``nemo_engines.run``."""

import json
from pathlib import Path

from nemo_engines import run
from nemo_engines.registry import load_driver


def kilobytes(name):
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def measured(engine):
    driver = load_driver(engine)
    train = driver.train

    def around(training):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = kilobytes("VmRSS")
        train(training)
        print(json.dumps({"growth": 1024 * (kilobytes("VmHWM") - before)}))

    driver.train = around
    return driver


run.load_driver = measured
run.main()
