"""Sessions of browsers: codes that are good once, cookies with a role and an end."""

import json

import pytest

from nemo_helix_server.auth import tokens
from nemo_helix_server.errors import UnauthenticatedError
from nemo_helix_server.jobs.model import Token
from nemo_helix_server.pages.sessions import FILE, PageGrant, PageSessions
from nemo_runs.clock import SECOND, MovableClock

VIEWER = PageGrant(name="vera", role="read", workspace="team")


def make(folder, clock, known=None):
    records = known or {}
    return PageSessions(folder / FILE, b"k" * 32, clock, records.get, seconds=3600, code_seconds=300)


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def sessions(tmp_path, clock):
    return make(tmp_path, clock)


def test_a_code_becomes_a_session_with_its_role_and_workspace(sessions):
    caller = sessions.caller(sessions.enter(sessions.code(VIEWER)))
    assert (caller.name, caller.role, caller.workspace) == ("vera", "read", "team")


def test_a_code_is_good_once(sessions):
    code = sessions.code(VIEWER)
    sessions.enter(code)
    with pytest.raises(UnauthenticatedError, match=r"used already.*nemo services open"):
        sessions.enter(code)


def test_a_code_ends_by_itself(sessions, clock):
    code = sessions.code(VIEWER)
    clock.advance(300)
    with pytest.raises(UnauthenticatedError, match="older than 300 seconds"):
        sessions.enter(code)


@pytest.mark.parametrize("value", [None, "", "guess", "\udce4", "x" * 100_000])
def test_what_is_no_session_is_nobody(sessions, value):
    with pytest.raises(UnauthenticatedError, match="not signed in"):
        sessions.caller(value)
    with pytest.raises(UnauthenticatedError):
        sessions.enter(value or "")


def test_a_session_ends_by_itself_and_by_leaving(sessions, clock):
    first, second = (sessions.enter(sessions.code(VIEWER)) for _ in range(2))
    sessions.leave(first)
    with pytest.raises(UnauthenticatedError):
        sessions.caller(first)
    assert sessions.caller(second).name == "vera"
    clock.advance(3600)
    with pytest.raises(UnauthenticatedError):
        sessions.caller(second)


def test_a_restart_signs_nobody_out_and_the_file_has_no_credential(sessions, tmp_path, clock):
    code = sessions.code(VIEWER)
    value = sessions.enter(code)
    file = tmp_path / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert value not in file.read_text()
    assert code not in file.read_text()
    assert make(tmp_path, clock).caller(value).name == "vera"


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[{"digest": "a"}]', '[{"digest": 1, "grant": {"name": 1}}]']
)
def test_a_damaged_file_signs_everybody_out(tmp_path, clock, text):
    (tmp_path / FILE).write_text(text)
    again = make(tmp_path, clock)
    assert again.caller(again.enter(again.code(VIEWER))).name == "vera"
    assert len(json.loads((tmp_path / FILE).read_text())) == 1


def token_record(minted, role):
    return {
        "id": "access-token-1", "name": "ci", "digest": minted.digest, "role": role, "workspace": None,
        "created_at": 0, "created_by": "owner", "expires_at": None, "revoked_at": None, "last_used_at": None,
    }  # fmt: skip


def test_a_session_that_was_made_with_a_token_may_no_more_than_it_was_made_for(tmp_path, clock):
    minted = tokens.mint()
    known = {minted.digest: Token(**token_record(minted, "admin"))}
    sessions = make(tmp_path, clock, known)
    grant = PageGrant(name="vera", role="read", workspace="team", token=minted.digest)
    caller = sessions.caller(sessions.enter(sessions.code(grant)))
    assert (caller.role, caller.workspace) == ("read", "team")


def test_a_session_of_a_token_ends_with_it(tmp_path, clock):
    minted = tokens.mint()
    record = token_record(minted, "operate")
    known = {minted.digest: Token(**record)}
    sessions = make(tmp_path, clock, known)
    value = sessions.with_token(minted.token)
    assert sessions.caller(value).role == "operate"
    known[minted.digest] = Token(**{**record, "revoked_at": clock.now() - SECOND})
    with pytest.raises(UnauthenticatedError, match="was revoked"):
        sessions.caller(value)
    with pytest.raises(UnauthenticatedError, match="not known"):
        sessions.with_token("nhx_guess")


def test_a_form_is_known_by_its_session_alone(sessions):
    mine, other = (sessions.enter(sessions.code(VIEWER)) for _ in range(2))
    assert sessions.is_csrf(mine, sessions.csrf(mine))
    assert not sessions.is_csrf(mine, sessions.csrf(other))
    assert not sessions.is_csrf(mine, "")
    assert not sessions.is_csrf(mine, "\udce4")


def test_each_service_has_a_cookie_of_its_own(tmp_path, clock):
    ours = make(tmp_path, clock)
    other = PageSessions(tmp_path / "x", b"o" * 32, clock, lambda digest: None, seconds=1, code_seconds=1)
    assert ours.cookie != other.cookie
