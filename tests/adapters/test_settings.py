"""Settings come from the environment, whole or with a clear refusal."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from monkeytree import limits
from monkeytree.adapters.errors import BadSetting
from monkeytree.adapters.queue import FENCE_MARGIN_S, HARD_LIMIT_S, VISIBILITY_TIMEOUT_S
from monkeytree.adapters.redis import for_celery, for_redis_py
from monkeytree.adapters.settings import Settings, settings_page
from monkeytree.adapters.store import Store

ROOT = Path(__file__).parent.parent.parent
REDIS = {"REDIS_URL": "redis://localhost:6379/0"}


def test_the_page_is_in_step() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    assert page == settings_page(), "write it anew: python -m monkeytree.adapters.settings > docs/settings.md"


def test_without_redis_url_the_refusal_says_what_to_do() -> None:
    for environ in ({}, {"REDIS_URL": "  "}):
        with pytest.raises(BadSetting, match=r"REDIS_URL is not set.*monkeytree serve"):
            Settings.from_env(environ)


def test_empty_variables_mean_their_default() -> None:
    names = {field.metadata["env"]: "" for field in fields(Settings)}
    settings = Settings.from_env(names | REDIS)
    assert settings == Settings(redis_url=REDIS["REDIS_URL"], rate_limit="")
    assert settings.rate_limit == "", "an empty rate limit is none"


def test_settings_go_through_the_environment_unchanged(tmp_path: Path) -> None:
    settings = Settings(
        redis_url="redis://h/1", data=str(tmp_path), lease_s=1.5, max_attempts=7, rate_limit=""
    )
    assert Settings.from_env(settings.environ()) == settings


def test_the_store_is_in_the_data_folder_by_default(tmp_path: Path) -> None:
    settings = Settings.from_env(REDIS | {"MONKEYTREE_DATA": str(tmp_path)})
    assert settings.database_url == f"sqlite:///{tmp_path}/monkeytree.db"
    assert not list(tmp_path.iterdir()), "settings make no files"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("REDIS_URL", "http://x", "'http://x'"),
        ("MONKEYTREE_AGENT_TRANSPORT", "pigeon", "must be stream or verbs or nixl, got 'pigeon'"),
        ("MONKEYTREE_AGENT_TOKEN", "mta_\u00e9", "MONKEYTREE_AGENT_TOKEN must be printable ASCII"),
        ("MONKEYTREE_LEASE_S", "soon", "'soon'"),
        ("MONKEYTREE_LEASE_S", "nan", "nan"),
        ("MONKEYTREE_LEASE_S", "-1", "-1"),
        ("MONKEYTREE_MAX_WAITERS", "1.5", "'1.5'"),
        ("MONKEYTREE_MAX_WAITERS", "0", "0"),
        ("MONKEYTREE_PLANNER", "here", "'here'"),
        ("MONKEYTREE_PLANNER", "a b:c", "'a b:c'"),
        ("MONKEYTREE_RATE_LIMIT", "foo", "must read like '100 per minute', got 'foo'"),
        ("MONKEYTREE_LOG_LEVEL", "loud", "'loud'"),
    ],
)
def test_a_wrong_value_is_named_and_shown(name: str, value: str, says: str) -> None:
    with pytest.raises(BadSetting) as refused:
        Settings.from_env(REDIS | {name: value})
    assert name in str(refused.value)
    assert says in str(refused.value)


def test_messages_show_no_passwords() -> None:
    with pytest.raises(BadSetting) as refused:
        Settings(redis_url="http://me:secret@h/0")
    assert "secret" not in str(refused.value)
    with pytest.raises(BadSetting) as refused:
        Store("mysql://me:secret@h/d")
    assert "secret" not in str(refused.value)


def test_query_options_only_redis_py_knows_are_dropped() -> None:
    settings = Settings(redis_url="redis://h:1/2?protocol=3&ssl_cert_reqs=none&decode_responses=1")
    assert settings.redis_url == "redis://h:1/2?ssl_cert_reqs=none"


def test_a_socket_is_spelt_as_each_side_wants_it() -> None:
    assert for_celery("unix:///run/v.sock?db=2") == "redis+socket:///run/v.sock?virtual_host=2"
    assert for_celery("redis://h/0") == "redis://h/0"
    assert for_redis_py("redis+socket:///run/v.sock?virtual_host=2") == "unix:///run/v.sock?db=2"
    assert Settings(redis_url="unix:///run/v.sock?db=2&protocol=3").redis_url == "unix:///run/v.sock?db=2"


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:secret@h:port/0", "redis://me:secret@h:99999", "redis://me:secret@[::1", "redis://me:secret@h/name",
        "redis://me:secret@h/0?db=1", "rediss://me:secret@h/0?socket_timeout=5", "unix:///run/v.sock?db=x",
        "redis://me:sec/ret@h/0",
    ],
)  # fmt: skip
def test_urls_that_clients_choke_on_are_refused_at_once(url: str) -> None:
    with pytest.raises(BadSetting) as refused:
        Settings(redis_url=url)
    assert "REDIS_URL" in str(refused.value)
    assert "sec" not in str(refused.value)


def test_no_fence_of_the_queue_stands_before_the_worker_s_own() -> None:
    longest = limits.TIME_LIMIT_S.high + Settings(redis_url="redis://h").solve_grace_s
    assert longest + FENCE_MARGIN_S < HARD_LIMIT_S < VISIBILITY_TIMEOUT_S
