"""The program `gym` with a driver that does as the test says; everything but `gym eval` is the real program.

What `gym eval run` does stands in the variable DRIVER, a word each: ask (one answer of the model, goes to
artifacts/answer.json), sleep=SECONDS, wait=FILE (until it is there), until-drained (ends 75 a moment after it
was told), deaf (ignores signals), exit=N, show (writes its arguments and what it was told to
artifacts/driver.json), then=WORD+… (these words in place of all that follow, from the second link of a chain
on), rows=N (adds N result rows), collected=STATE,STATUS,EXPECTED[,HOPELESS] (what a collector says to its
chain at its end; blanks are _).
"""

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

asked = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda received, _frame: asked.append(signal.Signals(received).name))

if sys.argv[1:2] != ["eval"]:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    from nemo_gym.cli.main import main

    main()

if sys.argv[2] == "prepare":
    print("prepare output", flush=True)
    Path(os.environ["NEMO_GYM_BENCH_DIR"], "artifacts", "prepare.json").write_text(json.dumps(sys.argv[3:]))
    sys.exit(int(os.environ.get("PREPARE", "0")))
print("driver output", flush=True)
here = Path(os.environ["NEMO_GYM_BENCH_DIR"], "artifacts")
drain = Path(os.environ["NEMO_GYM_DRAIN_FILE"])
link = Path(os.environ["NEMO_GYM_LINK"])
predecessor = link / "predecessor"
words = os.environ.get("DRIVER", "").split()
status = new = 0


def recorded():
    rows = here / "rollouts.jsonl"
    return rows.read_bytes().count(b"\n") if rows.exists() else 0


while words:
    action, _, value = words.pop(0).partition("=")
    if action == "then":
        if predecessor.exists() and predecessor.read_text().strip():
            words = value.split("+")
    elif action == "rows":
        with (here / "rollouts.jsonl").open("a") as rows:
            rows.writelines('{"reward": 1.0}\n' for _ in range(int(value)))
        new += int(value)
    elif action == "collected":
        state, code, expected, *hopeless = value.split(",")
        said = {"state": state, "status": int(code), "expected": int(expected), "recorded": recorded()}
        said |= {"new": new, "hopeless": hopeless[0].replace("_", " ") if hopeless else None}
        lines = [f"{key} {value}\n" for key, value in said.items() if value is not None]
        (link / "collected").write_text("".join(lines))
        status = int(code)
    elif action == "ask":
        url = os.environ["NEMO_GYM_POLICY_BASE_URL"] + "/chat/completions"
        body = json.dumps({"model": os.environ["NEMO_GYM_POLICY_MODEL_NAME"], "messages": []}).encode()
        key = os.environ["NEMO_GYM_POLICY_API_KEY"]
        request = urllib.request.Request(url, body, {"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            (here / "answer.json").write_bytes(response.read())
    elif action == "sleep":
        end = time.monotonic() + float(value)
        while time.monotonic() < end and not asked:
            time.sleep(0.05)
    elif action == "wait":
        while not os.path.exists(value) and not asked:
            time.sleep(0.05)
    elif action == "until-drained":
        while not asked and not drain.exists():
            time.sleep(0.05)
        # the file comes first, the signal a moment later
        end = time.monotonic() + 10
        while not asked and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        status = 75
    elif action == "deaf":
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        (here / "deaf").touch()
        time.sleep(600)
    elif action == "exit":
        status = int(value)
    elif action == "show":
        names = ("NEMO_GYM_CHAIN", "NEMO_GYM_JOB_ID", "NEMO_GYM_RESTART", "SHOWN")
        told = {"asked": asked, "drain": drain.read_text() if drain.exists() else None}
        shown = {name: os.environ.get(name) for name in names}
        keys = [name for name in os.environ if name.endswith(("TOKEN", "SECRET"))]
        (here / "driver.json").write_text(
            json.dumps({"argv": sys.argv[1:], "env": shown, "keys": sorted(keys), **told})
        )
sys.exit(status)
