"""The broadcaster: each event read once, each watcher served from where it was, slow ones dropped."""

import asyncio
import json
import threading

import anyio
import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, job_body

from nemo_helix_server.api import streams
from nemo_helix_server.api.streams import Broadcaster, StreamEvent
from nemo_helix_server.jobs.states import StatusEvent as Happening

pytestmark = pytest.mark.services

TIMEOUT = 30


class Feed:
    """Events in memory, and how often they were read."""

    def __init__(self):
        self.events = []
        self.reads = 0
        self.lock = threading.Lock()

    def add(self, job_id="a", workspace="default"):
        with self.lock:
            self.events.append(StreamEvent(len(self.events) + 1, workspace, job_id, "{}"))

    def newest(self):
        return len(self.events)

    def since(self, seq, limit):
        with self.lock:
            self.reads += 1
            return self.events[seq : seq + limit]


def in_loop(scenario):
    """Run a scenario with a broadcaster that runs."""

    async def main():
        feed = Feed()
        broadcaster = Broadcaster(feed)
        running = asyncio.create_task(broadcaster.run())
        try:
            await asyncio.wait_for(scenario(feed, broadcaster), TIMEOUT)
        finally:
            broadcaster.close()
            await asyncio.wait_for(running, TIMEOUT)

    asyncio.run(main())


async def take(stream, count):
    found = []
    async for event in stream:
        if event is not None:
            found.append(event.seq)
        if len(found) == count:
            break
    return found


async def watched(broadcaster, count):
    """Wait until so many watch."""
    while broadcaster.watchers < count:  # noqa: ASYNC110 - nobody else needs to know
        await asyncio.sleep(0.001)


def everything(_event):
    return True


def test_a_watcher_sees_what_happens_from_now_on():
    async def scenario(feed, broadcaster):
        feed.add()
        watching = asyncio.create_task(take(broadcaster.watch(everything, None), 2))
        await watched(broadcaster, 1)
        feed.add()
        broadcaster.notify()
        feed.add()
        broadcaster.notify()
        assert await watching == [2, 3]

    in_loop(scenario)


def test_a_watcher_that_comes_back_gets_what_it_missed_once():
    async def scenario(feed, broadcaster):
        for _ in range(3 * streams.PAGE):
            feed.add()
        watching = asyncio.create_task(take(broadcaster.watch(everything, 5), 3 * streams.PAGE - 5 + 1))
        await watched(broadcaster, 1)
        feed.add()
        broadcaster.notify()
        assert await watching == list(range(6, 3 * streams.PAGE + 2))

    in_loop(scenario)


def test_changes_that_nobody_announced_are_seen_all_the_same():
    async def scenario(feed, broadcaster):
        watching = asyncio.create_task(take(broadcaster.watch(everything, None), 1))
        await watched(broadcaster, 1)
        feed.add()
        assert await watching == [1]

    in_loop(scenario)


def test_a_watcher_gets_only_what_it_wants():
    async def scenario(feed, broadcaster):
        for number in range(10):
            feed.add(job_id="even" if number % 2 else "odd")
        assert await take(broadcaster.watch(lambda event: event.job_id == "even", 0), 5) == [2, 4, 6, 8, 10]

    in_loop(scenario)


def test_each_event_is_read_once_however_many_watch():
    async def scenario(feed, broadcaster):
        watching = [asyncio.create_task(take(broadcaster.watch(everything, None), 1)) for _ in range(50)]
        await watched(broadcaster, 50)
        before = feed.reads
        feed.add()
        broadcaster.notify()
        assert await asyncio.gather(*watching) == [[1]] * 50
        assert feed.reads - before < 10

    in_loop(scenario)


def test_a_watcher_that_takes_nothing_is_dropped_and_the_others_are_not():
    async def scenario(feed, broadcaster):
        slow = broadcaster.watch(everything, 0)
        feed.add()
        assert (await anext(slow)).seq == 1
        quick = asyncio.create_task(take(broadcaster.watch(everything, 1), streams.LARGEST_BACKLOG + 10))
        await watched(broadcaster, 2)
        for _ in range(streams.LARGEST_BACKLOG + 10):
            feed.add()
        broadcaster.notify()
        assert len(await quick) == streams.LARGEST_BACKLOG + 10
        assert [event async for event in slow] == []

    in_loop(scenario)


def test_an_end_of_the_service_ends_all_watches():
    async def scenario(feed, broadcaster):
        watching = asyncio.create_task(take(broadcaster.watch(everything, None), 1))
        await watched(broadcaster, 1)
        broadcaster.close()
        assert await watching == []
        assert await take(broadcaster.watch(everything, None), 1) == []
        assert broadcaster.watchers == 0

    in_loop(scenario)


def test_a_sign_of_life_comes_when_nothing_happens():
    async def scenario(feed, broadcaster):
        stream = broadcaster.watch(everything, None, 0.01)
        assert await anext(stream) is None
        await stream.aclose()
        assert broadcaster.watchers == 0

    in_loop(scenario)


def frames(text):
    """Kind, id and data of each event of a stream."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in fields:
            yield fields.get("event"), fields.get("id"), json.loads(fields["data"])


def follow(bench, path, headers, until):
    """What an open stream says until a text is in it; the application is asked as a server would."""
    collected = bytearray()

    async def main():
        done = asyncio.Event()
        sent = False

        async def receive():
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            collected.extend(message.get("body", b""))
            if until.encode() in collected:
                done.set()

        path_part, _, query = path.partition("?")
        raw = [(b"host", b"localhost"), *((k.encode(), v.encode()) for k, v in headers.items())]
        scope = {
            "type": "http", "method": "GET", "path": path_part, "raw_path": path_part.encode(),
            "headers": raw, "query_string": query.encode(), "http_version": "1.1", "scheme": "http",
            "root_path": "",
            "asgi": {"version": "3.0"}, "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        }  # fmt: skip
        bench.parts.broadcaster.__init__(bench.parts.broadcaster._feed)  # as of a service that just started
        running = asyncio.create_task(bench.parts.broadcaster.run())
        await asyncio.wait_for(bench.application(scope, receive, send), TIMEOUT)
        bench.parts.broadcaster.close()
        await running

    anyio.run(main)
    return list(frames(collected.decode()))


def test_a_job_s_stream_begins_with_the_job_and_tells_each_change(bench):
    client = bench.client()
    client.post(JOBS, json=job_body())
    bench.happen("tune", Happening.ACCEPTED, Happening.STARTED)
    story = client.get(f"{JOBS}/tune/transitions").json()["data"]
    found = follow(bench, f"{JOBS}/tune/events", {"last-event-id": "0"}, f'"seq":{story[-1]["seq"]}')
    kind, _, job = found[0]
    assert (kind, job["name"], job["status"]) == ("job", "tune", "active")
    assert "platform_spec" not in job
    told = [(identity, data) for kind, identity, data in found if kind == "transition"]
    assert [data["seq"] for _, data in told] == [row["seq"] for row in story]
    assert [identity for identity, _ in told] == [str(row["seq"]) for row in story]


def test_a_stream_goes_on_behind_the_last_event_that_was_seen(bench):
    client = bench.client()
    client.post(JOBS, json=job_body())
    client.post(JOBS, json=job_body("other"))
    story = client.get(f"{JOBS}/tune/transitions").json()["data"]
    last = story[-1]["seq"]
    headers = {"last-event-id": str(story[-2]["seq"])}
    found = follow(bench, "/apis/jobs/v2/workspaces/default/events", headers, '"job":"other"')
    seqs = [data["seq"] for kind, _, data in found if kind == "transition"]
    assert seqs[0] == last
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("identity", ["x", "-1", "9" * 30, "1.5", "²"])
def test_an_id_that_is_none_is_refused(bench, identity):
    client = bench.client()
    client.post(JOBS, json=job_body())
    answer = client.get(f"{JOBS}/tune/events", headers={"last-event-id": identity.encode()})
    assert answer.status_code == 400


def write_log(bench, job, *messages):
    """Add lines to the log of the newest task of a job, as its shim would."""
    with bench.store.read() as unit:
        task = unit.steps.current(unit.jobs.find("default", job["name"]).attempt_id).task
    folder = bench.data_dir / "jobs" / "default" / job["id"] / "runs" / task
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.jsonl").open("a") as log:
        log.writelines(json.dumps({"t": 1.5, "s": "out", "m": message}) + "\n" for message in messages)


def test_log_lines_are_followed_and_gone_on_with_where_they_were_left(bench):
    client = bench.client()
    job = client.post(JOBS, json=job_body()).json()
    bench.happen("tune", Happening.ACCEPTED, Happening.STARTED)
    write_log(bench, job, "one", "two")
    path = f"{JOBS}/tune/events?logs=true"
    first = follow(bench, path, {}, '"message":"two"')
    lines = [(identity, data["message"]) for kind, identity, data in first if kind == "log"]
    assert [message for _, message in lines] == ["one", "two"]
    assert lines[0][0] is None  # only behind the last line of a page it can be gone on with
    write_log(bench, job, "three")
    again = follow(bench, path, {"last-event-id": lines[1][0]}, '"message":"three"')
    assert [data["message"] for kind, _, data in again if kind == "log"] == ["three"]
    newest = follow(bench, f"{path}&tail=1", {}, '"message":"three"')
    assert [data["message"] for kind, _, data in newest if kind == "log"] == ["three"]
    answer = client.get(path, headers={"last-event-id": "1~nonsense"})
    assert answer.status_code == 422
