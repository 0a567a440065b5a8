"""How the pages about runs that tell their ends, have prices, and stop early are followed."""

from __future__ import annotations

import json

import yaml
from tests.docs import worlds
from tests.docs.pages import Page, merged
from tests.nemo_gym.notices.test_sending import Hook


def be_notified(page: Page) -> None:
    """A command that keeps what it is given, and a real server, hear of the end."""
    hook = page.rest.enter_context(Hook())
    page.environ["HOOK_TOKEN"] = "hook_secret"
    noticed = page.folder / "noticed.json"
    page.replaced |= {
        'mail -s "evaluation" me@example.org': f"tee {noticed}",
        "https://hooks.example.org/evaluations": hook.url,
    }
    page.save("submit.yaml", more=yaml.safe_dump(worlds.submission("arithmetic")))
    page.type("gym eval submit -c submit.yaml && gym job watch latest")
    worlds.wait(lambda: hook.received and noticed.exists() and noticed.read_text())
    assert [notice["event"] for notice in hook.received] == ["end"]
    assert json.loads(noticed.read_text()) == hook.received[0]
    assert hook.headers[0]["Authorization"] == "hook_secret"


def gym_settings(page: Page) -> None:
    hook = page.rest.enter_context(Hook())
    page.environ["HOOK_URL"] = hook.url
    page.save("home/.config/nemo-gym/settings.yaml")
    on_a_gpu(page)
    worlds.wait(lambda: hook.received)
    page.type("gym job bill latest")
    assert " EUR" in page.said


def bill(page: Page) -> None:
    on_a_gpu(page)
    page.run()
    assert page.said.count("gpqa") >= 2
    assert " EUR" not in page.said
    page.save("home/.config/nemo-gym/settings.yaml")
    page.type("gym job bill latest")
    assert " EUR" in page.said


def on_a_gpu(page: Page) -> None:
    """A run that has ended well, of a machine that is said to have a GPU, which has a price."""
    config = merged(worlds.submission("gpqa"), {"compute": {"here": {"gpus": 1}}})
    record = worlds.submit(page, config, "--label purpose=paper")
    page.type(f"gym job watch {record['gym_job_id']}")


def stop_early(page: Page) -> None:
    """The sums stand for the questions of lm-eval."""
    worlds.model_server(page)
    of_sums = "--benchmark arithmetic --model-url " + page.filled("http://127.0.0.1:8000/v1")
    page.replaced |= {"--benchmark lm_eval/gsm8k": of_sums, "runs/gym-job-A": "before"}
    page.type(f"gym eval run {of_sums} --model my-model --output before/rollouts.jsonl")

    def fresh(_line: str) -> None:
        page.type("rm -rf results")

    page.run(each=fresh)
    assert "equal" in page.said
    assert yaml.safe_load(page.next("yaml").text)["driver"]["benchmarks"]["gsm8k"]["run"]["until"]


READERS = {
    "docs/how-to/be-notified.md": be_notified,
    "docs/how-to/bill.md": bill,
    "docs/how-to/stop-early.md": stop_early,
    "docs/reference/gym-settings.md": gym_settings,
}
"""Page -> how it is followed."""
