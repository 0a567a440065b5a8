import json
import os
import pwd
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runs.leases import devices, machine_leases
from nemo_runs.leases.lease_queue import decide
from nemo_runs.leases.machine_leases import (
    Granted,
    LeaseError,
    LeaseHolder,
    LeaseRequest,
    LeaseWaiting,
    Pool,
    ticket,
)
from nemo_runs.processes import process_table, trees

SOURCES = Path(__file__).parents[3] / "src"
TIMEOUT = 60.0


def ask(name, number=0, **fields):
    return LeaseRequest(name=name, **{"label": "lab", "ticket": ticket(1.0, number), **fields})


@pytest.fixture
def sleeper():
    """A process that can be killed."""
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def book_of(folder):
    return next(folder.glob("*.json"))


def in_another_process(folder, *requests, slots=2, gpus="0,1", then="import os; os._exit(0)"):
    """A process that asks, prints its answers, and does something else then."""
    program = (
        "import json, sys\n"
        "from nemo_runs.leases.machine_leases import *\n"
        "from pathlib import Path\n"
        "pool = Pool(Path(sys.argv[1]), sys.argv[2].split(','), int(sys.argv[3]))\n"
        "for fields in json.loads(sys.argv[4]):\n"
        "    print(type(pool.acquire(LeaseRequest(**fields))).__name__, flush=True)\n"
        f"{then}\n"
    )
    fields = [{name: getattr(request, name) for name in request.__slots__} for request in requests]
    argv = [sys.executable, "-c", program, str(folder), gpus, str(slots), json.dumps(fields)]
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_devices_and_slots_are_leased_and_the_waiting_are_told_who_holds_them(tmp_path):
    pool = Pool(tmp_path, ("0", "1"), 4)
    assert pool.acquire(ask("a", 1, devices=1)) == Granted(("0",), 1)
    assert pool.acquire(ask("b", 2, devices=1, label="x")) == Granted(("1",), 1)
    assert pool.acquire(ask("c", 3, devices=2)) == LeaseWaiting(
        "waiting for 2 GPU devices: 0 is held by lab/a, 1 is held by x/b", 1
    )
    assert pool.acquire(ask("d", 4, slots=3)) == LeaseWaiting(
        "waiting for 3 CPU slots: 2 of 4 are held by lab/a, x/b", 2
    )
    assert pool.acquire(ask("e", 5)) == LeaseWaiting("waiting for its turn, behind lab/c, lab/d", 3)
    assert [(holder.name, holder.devices, holder.slots) for holder in pool.holders()] == [
        ("a", ("0",), 1),
        ("b", ("1",), 1),
    ]
    pool.release("a")
    pool.release("a")
    pool.release("b")
    assert pool.acquire(ask("c", 3, devices=2)) == Granted(("0", "1"), 1)


def test_asking_again_under_a_name_is_the_same_lease(tmp_path):
    pool = Pool(tmp_path, ("0",), 2)
    first = pool.acquire(ask("a", devices=1))
    assert pool.acquire(ask("a", devices=1)) == first
    assert len(pool.holders()) == 1


def test_turns_are_in_the_order_of_tickets_not_of_asking(tmp_path):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("running"))
    assert [pool.acquire(ask(name, number)).position for name, number in (("c", 3), ("a", 1), ("b", 2))] == [
        1,
        1,
        2,
    ]
    pool.release("running")
    assert isinstance(pool.acquire(ask("c", 3)), LeaseWaiting)
    assert isinstance(pool.acquire(ask("b", 2)), LeaseWaiting)
    assert isinstance(pool.acquire(ask("a", 1)), Granted)


def test_one_that_gives_up_waiting_holds_nobody_back(tmp_path):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("running"))
    pool.acquire(ask("a", 1))
    pool.acquire(ask("b", 2))
    pool.release("running")
    pool.release("a")
    assert pool.acquire(ask("b", 2)) == Granted((), 1)


def test_a_large_request_is_not_starved_by_small_ones(tmp_path):
    pool = Pool(tmp_path, ("0", "1"), 8)
    pool.acquire(ask("small", 1, devices=1))
    assert isinstance(pool.acquire(ask("large", 2, devices=2)), LeaseWaiting)
    assert pool.acquire(ask("later", 3, devices=1)) == LeaseWaiting(
        "waiting for its turn, behind lab/large", 2
    )
    # it needs no device, and the large one cannot use the slot yet
    assert pool.acquire(ask("cpu", 4)) == Granted((), 1)


def test_a_label_may_hold_so_many_and_then_lets_others_pass(tmp_path):
    pool = Pool(tmp_path, (), 4)
    assert [type(pool.acquire(ask(name, number, cap=2))) for number, name in enumerate("abc")] == [
        Granted,
        Granted,
        LeaseWaiting,
    ]
    assert pool.acquire(ask("c", 2, cap=2)).reason == "lab may run 2 at once, and these run: a, b"
    assert isinstance(pool.acquire(ask("d", 3, label="other", slots=2)), Granted)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (ask("a", devices=3), "lab/a asks for 3 GPU devices, and this machine has 2 (0, 1)"),
        (ask("a", slots=5), "lab/a asks for 5 CPU slots, and this machine has 4"),
        (ask("a", slots=-1), "lab/a asks for a negative number of something, or may hold nothing at all"),
        (ask("a", cap=0), "lab/a asks for a negative number of something, or may hold nothing at all"),
    ],
)
def test_what_the_machine_could_never_give_is_refused(tmp_path, request_, sentence):
    with pytest.raises(LeaseError) as raised:
        Pool(tmp_path, ("0", "1"), 4).acquire(request_)
    assert str(raised.value) == sentence


def test_a_machine_without_gpus_says_so(tmp_path):
    with pytest.raises(LeaseError, match="this machine has none"):
        Pool(tmp_path, (), 4).acquire(ask("a", devices=1))


def test_what_a_killed_process_held_and_waited_for_is_free(tmp_path):
    program = "import sys; sys.stdin.readline()"
    other = in_another_process(tmp_path, ask("a", 1), ask("b", 2), slots=1, then=program)
    assert [other.stdout.readline(), other.stdout.readline()] == ["Granted\n", "LeaseWaiting\n"]
    pool = Pool(tmp_path, (), 1)
    assert pool.acquire(ask("c", 3)).position == 2
    other.kill()
    other.communicate(timeout=TIMEOUT)
    assert pool.acquire(ask("c", 3)) == Granted((), 1)


def test_a_stopped_holder_is_not_dead(tmp_path, sleeper):
    import signal

    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("a"))
    pool.hand_over("a", trees.identify(sleeper.pid))
    sleeper.send_signal(signal.SIGSTOP)
    assert isinstance(pool.acquire(ask("b")), LeaseWaiting)
    sleeper.send_signal(signal.SIGCONT)


def test_a_lease_that_was_handed_over_outlives_the_one_who_asked(tmp_path, sleeper):
    me = trees.identify(sleeper.pid)
    then = (
        "from nemo_runs.processes.trees import ProcessIdentity\n"
        f"pool.hand_over('a', ProcessIdentity.from_json(json.loads({json.dumps(me.to_json())!r})))\n"
        "import os; os._exit(0)"
    )
    in_another_process(tmp_path, ask("a", devices=1), then=then).communicate(timeout=TIMEOUT)
    pool = Pool(tmp_path, ("0",), 2)
    assert pool.acquire(ask("b", 2, devices=1)).reason == "waiting for 1 GPU device: 0 is held by lab/a"
    # the restarted program asks again and finds what it had
    assert pool.acquire(ask("a", devices=1)) == Granted(("0",), 1)
    assert pool.holders()[0].identity == me
    sleeper.kill()
    sleeper.wait()
    assert pool.acquire(ask("b", 2, devices=1)) == Granted(("0",), 1)


def test_a_lease_that_somebody_else_has_freed_cannot_be_handed_over(tmp_path):
    in_another_process(tmp_path, ask("a", devices=1)).communicate(timeout=TIMEOUT)
    pool = Pool(tmp_path, ("0", "1"), 2)
    assert isinstance(pool.acquire(ask("b", 2, devices=2)), Granted)
    with pytest.raises(LeaseError, match="the lease of a is no longer held"):
        pool.hand_over("a", trees.identify())


def test_the_number_of_a_dead_process_that_was_used_again_is_no_life(tmp_path, sleeper):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("a"))
    living = trees.identify(sleeper.pid)
    pool.hand_over("a", replace(living, start_time=living.start_time - 1))
    assert pool.acquire(ask("b")) == Granted((), 1)


def test_leases_of_the_machines_last_boot_are_void_and_a_changed_host_name_is_no_death(tmp_path, sleeper):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("a"))
    living = trees.identify(sleeper.pid)
    pool.hand_over("a", replace(living, host="renamed-since"))
    assert isinstance(pool.acquire(ask("b")), LeaseWaiting)
    pool.hand_over("a", replace(living, boot_id="before"))
    assert isinstance(pool.acquire(ask("b")), Granted)


def test_each_boot_has_a_book_of_its_own(tmp_path):
    Pool(tmp_path, (), 1).acquire(ask("a"))
    path = book_of(tmp_path)
    assert path.name.startswith(process_table.boot_id())
    path.rename(path.with_name(path.name.replace(process_table.boot_id(), "last-boot")))
    assert isinstance(Pool(tmp_path, (), 1).acquire(ask("b")), Granted)


def test_while_anything_with_its_marker_runs_a_lease_is_held(tmp_path, sleeper):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("a"))
    left = subprocess.Popen(["sleep", "300"], env={**os.environ, "BATON_TEST_MARKER": str(tmp_path)})
    try:
        pool.hand_over("a", trees.identify(sleeper.pid), marker=("BATON_TEST_MARKER", str(tmp_path)))
        sleeper.kill()
        sleeper.wait()
        assert isinstance(pool.acquire(ask("b")), LeaseWaiting)
    finally:
        left.kill()
        left.wait()
    assert isinstance(pool.acquire(ask("b")), Granted)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"held": [{}], "waiting": []}'])
def test_a_damaged_book_gives_nothing_away(tmp_path, text):
    pool = Pool(tmp_path, (), 1)
    pool.acquire(ask("a"))
    book_of(tmp_path).write_text(text)
    with pytest.raises(LeaseError, match=r"is damaged.*remove it when nothing"):
        pool.acquire(ask("b"))


def test_the_folder_is_the_users_alone_and_holds_no_leftovers(tmp_path):
    folder = tmp_path / "deep" / "leases"
    Pool(folder, (), 1).acquire(ask("a"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".lock"]


RACE = """
import os, time
for number in range(25):
    for name in json.loads(sys.argv[5]):
        request = LeaseRequest(name=f"{name}-{number}", label="lab", devices=1, ticket=ticket(time.time()))
        while True:
            answer = pool.acquire(request)
            if isinstance(answer, Granted):
                break
            time.sleep(0.001)
        path = Path(sys.argv[6], answer.devices[0])
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        path.unlink()
        pool.release(request.name)
print("fine")
"""


@pytest.mark.slow
def test_two_processes_that_race_never_hold_the_same_device(tmp_path):
    busy = tmp_path / "busy"
    busy.mkdir()
    others = []
    for name in ("p", "q", "r"):
        program = (
            "import json, sys\nfrom nemo_runs.leases.machine_leases import *\nfrom pathlib import Path\n"
            f"pool = Pool(Path(sys.argv[1]), ['0', '1'], 8)\n{RACE}"
        )
        argv = [
            sys.executable,
            "-c",
            program,
            str(tmp_path / "leases"),
            "",
            "",
            "",
            json.dumps([name]),
            str(busy),
        ]
        others.append(
            subprocess.Popen(
                argv, env={**os.environ, "PYTHONPATH": str(SOURCES)}, stdout=subprocess.PIPE, text=True
            )
        )
    for other in others:
        out, _ = other.communicate(timeout=TIMEOUT)
        assert (other.returncode, out) == (0, "fine\n")
    assert Pool(tmp_path / "leases", ("0",), 1).holders() == []


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_or_damaged(tmp_path):
    program = (
        "import time\n"
        "for number in range(10_000):\n"
        "    pool.acquire(LeaseRequest(name=f'n{number % 3}', label='x', ticket=ticket(time.time())))\n"
        "    pool.release(f'n{number % 3}')\n"
    )
    pool = Pool(tmp_path, (), 8)
    pool.acquire(ask("mine"))
    for number in range(8):
        other = in_another_process(tmp_path, ask("theirs"), slots=8, then=program)
        assert other.stdout.readline() in {"Granted\n", "LeaseWaiting\n"}
        time.sleep(0.01 * number)
        other.kill()
        other.communicate(timeout=TIMEOUT)
        assert [holder.name for holder in pool.holders()] == ["mine"]


holders = st.builds(
    LeaseHolder,
    name=st.sampled_from("uvwxyz"),
    label=st.sampled_from("lm"),
    devices=st.just(()),
    slots=st.integers(0, 3),
    since=st.just(0.0),
    identity=st.just(trees.identify()),
)
requests = st.builds(
    LeaseRequest,
    name=st.sampled_from("abcdef"),
    label=st.sampled_from("lm"),
    devices=st.integers(0, 3),
    slots=st.integers(0, 4),
    ticket=st.integers(0, 5).map(lambda number: ticket(0.0, number)),
    cap=st.none() | st.integers(1, 3),
)


@given(held=st.lists(holders, max_size=3), waiting=st.lists(requests, max_size=5, unique_by=lambda r: r.name))
def test_the_first_in_the_queue_that_fits_is_never_passed_by_and_nothing_is_given_twice(held, waiting):
    there, slots = ("0", "1", "2"), 4
    taken = sum(holder.slots for holder in held)
    for request in sorted(waiting, key=lambda request: (request.ticket, request.name)):
        before = [other for other in waiting if (other.ticket, other.name) < (request.ticket, request.name)]
        decision = decide(request, held, waiting, devices=there, slots=slots)
        if isinstance(decision, Granted):
            assert len(decision.devices) == request.devices
            assert request.slots == 0 or taken + request.slots <= slots
        else:
            assert decision.position == len(before) + 1
        capped = request.cap is not None and sum(h.label == request.label for h in held) >= request.cap
        fits = request.slots == 0 or taken + request.slots <= slots
        if not before:
            assert isinstance(decision, Granted) is (fits and not capped)


LISTING = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa-1)
  MIG 1g.18gb     Device  0: (UUID: MIG-1)
  MIG 1g.18gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb-2)
GPU 2: NVIDIA H200 (UUID: GPU-bbcc-3)
"""


@pytest.mark.parametrize(
    ("visible", "listing", "found"),
    [
        (None, "", ()),
        (None, LISTING, ("MIG-1", "MIG-2", "GPU-bbbb-2", "GPU-bbcc-3")),
        ("", LISTING, ()),
        ("-1", LISTING, ()),
        ("1", "GPU 0: X (UUID: GPU-a)\nGPU 1: X (UUID: GPU-b)\n", ("GPU-b",)),
        ("1,0,-1,2", "GPU 0: X (UUID: GPU-a)\nGPU 1: X (UUID: GPU-b)\n", ("GPU-b", "GPU-a")),
        ("GPU-bbb", LISTING, ("GPU-bbbb-2",)),
        ("GPU-bb", LISTING, ("GPU-bb",)),
        ("0, 1", "", ("0", "1")),
    ],
)
def test_devices_are_named_alike_however_they_were_found(visible, listing, found):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert devices.found_devices(environ, listing=lambda: listing) == found


def test_the_folder_is_one_for_all_programs_of_a_user(tmp_path):
    home = {"XDG_STATE_HOME": str(tmp_path)}
    assert machine_leases.default_folder(home) == tmp_path / "nemo-runs" / "leases"
    assert machine_leases.default_folder({**home, "NEMO_LEASES_DIR": "/x"}) == Path("/x")
    own = {"HOME": "/home/ada"}
    assert machine_leases.default_folder(own) == Path("/home/ada/.local/state/nemo-runs/leases")
    account = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert machine_leases.default_folder({}) == account / ".local/state/nemo-runs/leases"
    assert machine_leases.found_slots() >= 1
    assert machine_leases.found_slots({"NEMO_LEASES_SLOTS": "7"}) == 7
    with pytest.raises(LeaseError, match="must be a whole number from 1"):
        machine_leases.found_slots({"NEMO_LEASES_SLOTS": "0"})
