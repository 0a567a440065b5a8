"""Jobs in real bash that tell of their end, and of standing still, through the real program."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.shell.test_chain import COMPLETE, DRAINED, SHELL, World, says

from nemo_gym.chain.budget import Budget
from nemo_gym.orchestration.config.notify_schema import NotifyConfig
from nemo_gym.orchestration.plan.sealed_files import with_own_digest
from nemo_runs.secret_refs import SecretText

pytestmark = pytest.mark.services

SECRET = "sesame-3131"


class TellingWorld(World):
    """The same with somebody who is told by a command, and a webhook that nobody answers."""

    def limits(self, budget, *, walltime=None):
        super().limits(budget, walltime=walltime)
        notify = NotifyConfig(
            command='cat >>"$CLUSTER/told"',
            webhook={"url": "runtime:NOT_SET", "headers": {"X-Key": "host:HOOK_KEY"}},
        )
        secrets = {"HOOK_KEY": SecretText(SECRET)}
        self.plan = replace(self.plan, notify=notify, secrets=secrets)
        real = Path(sys.executable).with_name("gym")
        self.gym.write_text(
            f'#!/bin/bash\n[ "$1" != step ] || {{ echo "$*" >>"$CLUSTER/steps"; exec {real} "$@"; }}\n'
            '[ "$1" = eval ] || { echo gym 9; exit; }\neval "$DRIVE"\n'
        )
        (self.parts / "notify.sh").write_bytes((SHELL / "notify.sh").read_bytes())
        (self.parts / "notify.json").write_text(notify.model_dump_json())
        self.seal(self.plan)

    @property
    def told(self):
        path = self.cluster / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def world(tmp_path):
    made = TellingWorld(tmp_path)
    yield made
    for job in made.started:
        if job.poll() is None:
            job.terminate()
            job.communicate(timeout=60)


def test_a_chain_tells_of_its_end_once_and_a_webhook_that_fails_changes_nothing(world):
    status, _ = world.run(7, drive=says(DRAINED))
    assert (status, world.told) == (75, [])  # its successor waits
    world.set("state-7", "TIMEOUT")
    status, said = world.run(101, 7, drive=says(COMPLETE))
    assert status == 0
    [told] = world.told
    assert (told["event"], told["state"], told["job_id"]) == ("end", "succeeded", "101")
    assert "was not sent by webhook: notify.webhook.url: the variable NOT_SET is not set" in said
    assert [event["by"] for event in world.events("notice_failed")] == ["webhook"]
    world.run(101, 7, restart=1)
    assert len(world.told) == 1
    assert SECRET not in (world.cluster / "steps").read_text()
    script = world.paths.script
    everywhere = [path for path in world.job_dir.rglob("*") if path.is_file() and path != script]
    assert SECRET not in "".join(path.read_text() for path in everywhere)


def test_standing_still_is_told_while_the_driver_goes_on(world):
    world.limits(Budget())
    script = world.paths.script.read_text()
    assert "GYM_NOTIFY_AFTER='1800'" in script
    drive = (
        'echo \'{"done":3,"expected":5}\' >artifacts/progress.json; '
        'until [ -e "$CLUSTER/told" ]; do sleep 0.05; done; ' + says(COMPLETE)
    )
    world.paths.script.write_text(with_own_digest(script.replace("AFTER='1800'", "AFTER='0'")))
    status, said = world.run(7, drive=drive, NEMO_GYM_NOTIFY_SECONDS="0")
    assert status == 0, said
    assert [told["event"] for told in world.told] == ["no_progress", "end"]
    assert world.told[0]["done"] == 3
