"""Access tokens and tokens of steps: what they say, and all the ways in which they are nobody's."""

import base64
import dataclasses
import json
import stat

import jwt
import pytest

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.auth import roles, step_tokens, tokens
from nemo_helix_server.auth.step_tokens import Claims
from nemo_helix_server.errors import ForbiddenError, ServerError, UnauthenticatedError
from nemo_helix_server.jobs.model import Caller, Token
from nemo_runs.clock import SECOND

NOW = 1_800_000_000 * SECOND
CLAIMS = Claims("default", "tune", "platform-job-1", "training", "task-1", NOW + SECOND)
KEY = b"k" * 32


def record(**changes):
    given = {
        "id": "t", "name": "ci", "digest": "d", "role": "operate", "workspace": None, "created_at": 1,
        "created_by": "me", "expires_at": None, "revoked_at": None, "last_used_at": None,
    }  # fmt: skip
    return Token(**{**given, **changes})


def test_a_token_is_long_random_and_only_its_digest_is_kept():
    one, other = tokens.mint(), tokens.mint()
    assert one.token != other.token
    assert one.token.startswith("nhx_")
    assert len(base64.urlsafe_b64decode(one.token.removeprefix("nhx_") + "=")) == 32
    assert one.digest == tokens.digest_of(one.token)
    assert one.token not in one.digest


def test_a_usable_token_is_its_caller():
    caller = tokens.caller_of(record(workspace="lab"), NOW)
    assert caller == Caller(name="ci", role="operate", workspace="lab")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "not known"),
        (record(revoked_at=NOW - 1), "'ci' was revoked at 2027"),
        (record(expires_at=NOW), "'ci' expired at 2027"),
    ],
)
def test_a_token_that_is_nobody_s_says_why(found, words):
    with pytest.raises(UnauthenticatedError, match=words):
        tokens.caller_of(found, NOW)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("needed", list(Role))
def test_each_role_allows_what_the_ones_before_it_do(role, needed):
    caller = Caller(name="ci", role=role)
    if list(Role).index(role) >= list(Role).index(needed):
        roles.check_role(caller, needed)
    else:
        with pytest.raises(ForbiddenError, match=f"'{role}', this needs '{needed}'"):
            roles.check_role(caller, needed)


def test_a_confined_token_sees_its_own_workspace_alone():
    caller = Caller(name="ci", role="admin", workspace="lab")
    roles.check_workspace(caller, "lab")
    for other in ("default", "-"):
        with pytest.raises(ForbiddenError, match="for the workspace 'lab'"):
            roles.check_workspace(caller, other)


def test_a_step_s_token_says_what_it_was_signed_with():
    assert step_tokens.read(KEY, step_tokens.sign(KEY, CLAIMS), NOW) == CLAIMS


def test_a_step_s_token_ends():
    with pytest.raises(UnauthenticatedError, match="'training' has expired"):
        step_tokens.read(KEY, step_tokens.sign(KEY, CLAIMS), CLAIMS.expires_at)


EARLIER_KEY = bytes(range(32))
EARLIER = (
    "nhxs_eyJ3b3Jrc3BhY2UiOiJkZWZhdWx0Iiwiam9iIjoidHVuZSIsImpvYl9pZCI6InBsYXRmb3JtLWpvYi0xIiwic3RlcCI6InRyYWluaW5n"
    "IiwidGFzayI6InRhc2stMSIsImV4cGlyZXNfYXQiOjE4MDAwMDAwMDEwMDAwMDB9.TWlmyFpU0GXgfgu1hM5nLhgSXJL_BwulaEEM5cxjYfE"
)
"""`CLAIMS` as a step holds them that was started before tokens were JSON Web Tokens, of `EARLIER_KEY`."""


def part(data):
    return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


def test_the_token_of_a_step_that_runs_across_an_upgrade_goes_on_to_count_until_it_ends():
    assert step_tokens.read(EARLIER_KEY, EARLIER, NOW) == CLAIMS
    with pytest.raises(UnauthenticatedError, match="'training' has expired"):
        step_tokens.read(EARLIER_KEY, EARLIER, CLAIMS.expires_at)


@pytest.mark.parametrize(("key", "token"), [(KEY, step_tokens.sign(KEY, CLAIMS)), (EARLIER_KEY, EARLIER)])
def test_a_changed_claim_breaks_the_signature(key, token):
    *header, body, signature = token.removeprefix("nhxs_").split(".")
    forged = {**dataclasses.asdict(CLAIMS), "job": "other", "aud": "step", "exp": NOW}
    for parts in (
        [*header, part(forged), signature],
        [*header, body, signature[::-1]],
        [*header, body, signature[:-4]],
        [*header, body, ""],
    ):
        with pytest.raises(UnauthenticatedError, match=r"not made by this service|is damaged"):
            step_tokens.read(key, "nhxs_" + ".".join(parts), NOW)
    with pytest.raises(UnauthenticatedError, match="not made by this service"):
        step_tokens.read(b"x" * 32, token, NOW)


@pytest.mark.parametrize(
    "token",
    [
        *("nhxs_", "nhxs_a", "nhxs_a.b", "nhxs_a.b.c", "nhxs_a.b.c.d", "nhxs_..", "nhxs_é.é", "nhxs_é.é.é"),
        *("nhxs_a.\ud800", "nhxs_" + "." * 100_000, "nhxs_" + "a" * 100_000, f"nhxs_{part([])}.b"),
        f"{EARLIER}=x",
        step_tokens.sign(KEY, CLAIMS) + "é",
    ],
)
def test_a_damaged_token_is_nobody_s(token):
    for key in (KEY, EARLIER_KEY):
        with pytest.raises(UnauthenticatedError):
            step_tokens.read(key, token, NOW)


@pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
def test_only_our_own_algorithm_counts_whatever_a_token_says(algorithm):
    said = {**dataclasses.asdict(CLAIMS), "aud": "step", "exp": NOW + 1}
    token = jwt.encode(said, None if algorithm == "none" else b"k" * 64, algorithm)
    with pytest.raises(UnauthenticatedError):
        step_tokens.read(b"k" * 64, "nhxs_" + token, NOW)


@pytest.mark.parametrize(
    "changes", [{"aud": "else"}, {"aud": None}, {"exp": None}, {"exp": "soon"}, {"job": None}]
)
def test_a_signed_token_that_is_not_a_step_s_is_nobody_s(changes):
    said = {**dataclasses.asdict(CLAIMS), "aud": "step", "exp": NOW // SECOND + 1, **changes}
    token = jwt.encode({name: value for name, value in said.items() if value is not None}, KEY, "HS256")
    with pytest.raises(UnauthenticatedError):
        step_tokens.read(KEY, "nhxs_" + token, NOW)


def test_the_signing_key_is_made_once_and_is_its_owner_s_alone(tmp_path):
    key = step_tokens.load_key(tmp_path)
    assert len(key) == 32
    assert step_tokens.load_key(tmp_path) == key
    path = tmp_path / step_tokens.KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(ServerError, match="others can read it"):
        step_tokens.load_key(tmp_path)
