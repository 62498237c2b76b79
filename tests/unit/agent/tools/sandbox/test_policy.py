"""What a policy opens and closes, and how settings are read."""

import pytest
from pydantic import ValidationError

from nanobot.agent.tools.sandbox.policy import Limits, Machine, Network, Places, Policy, Unusable, plan
from nanobot.agent.tools.sandbox.settings import SandboxSettings

MACHINE = Machine(system=("/usr", "/etc/passwd"), resolving=("/etc/resolv.conf",), private=("/home/me/.ssh",))
DATA = "/home/me/.nanobot/data"
CONFIG = "/home/me/.nanobot/config.yaml"


def policy(
    workspace: str = "/home/me/.nanobot/workspace",
    *,
    network: Network = "on",
    read: tuple[str, ...] = (),
    write: tuple[str, ...] = (),
) -> Policy:
    """Return the plan for a workspace of the usual installation."""
    places = Places(workspace=workspace, home=f"{DATA}/sandbox/x/home", tmp=f"{DATA}/sandbox/x/tmp")
    return plan(
        MACHINE,
        places,
        closed=[DATA],
        secret_files=[CONFIG],
        network=network,
        limits=Limits(),
        read=read,
        write=write,
    )


def test_only_the_workspace_can_be_written() -> None:
    """Beside the workspace, nothing but the system is there, and that is for reading."""
    found = policy()

    assert found.write == ("/home/me/.nanobot/workspace",)
    assert found.read == ("/usr", "/etc/passwd", "/etc/resolv.conf")
    assert found.hidden == ()


def test_a_workspace_that_holds_our_own_directory_has_it_hidden() -> None:
    """The home directory as workspace: configuration, data and keys are closed inside it."""
    assert policy("/home/me").hidden == (DATA, "/home/me/.nanobot", "/home/me/.ssh")


def test_keys_are_open_to_who_names_them() -> None:
    """An owner may name a directory of keys."""
    found = policy("/home/me", read=("/home/me/.ssh",))

    assert "/home/me/.ssh" in found.read
    assert "/home/me/.ssh" not in found.hidden


def test_names_are_not_resolved_without_a_network() -> None:
    """What is only good for the network is not shown when there is none."""
    assert "/etc/resolv.conf" not in policy(network="off").read


@pytest.mark.parametrize(
    ("workspace", "write", "why"),
    [
        ("/", (), "holds the system itself"),
        ("/usr", (), "holds the system itself"),
        ("/home/me/.nanobot", (), r"holds nanobot's configuration \(config.yaml\)"),
        ("/home/me/ws", ("/home/me/.nanobot",), "holds nanobot's configuration"),
        ("/home/me/ws", (f"{DATA}/sessions",), "belongs to nanobot itself"),
        ("/home/me/ws", (CONFIG,), "belongs to nanobot itself"),
    ],
)
def test_what_cannot_be_kept_in_is_said(workspace: str, write: tuple[str, ...], why: str) -> None:
    """There is no half a sandbox: what would open our own files is refused with what to change."""
    with pytest.raises(Unusable, match=why):
        policy(workspace, write=write)


def test_on_and_off_are_words() -> None:
    """YAML reads on and off as booleans; they are taken as they were written."""
    assert SandboxSettings.model_validate({"mode": False, "network": True}) == SandboxSettings(mode="off", network="on")
    assert SandboxSettings.model_validate({"network": False}).network == "off"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("network", ["https://example.org"], "is no host; write example.org"),
        ("network", ["exa mple.org"], "is no host"),
        ("write", ["projects"], "must begin with / or ~/"),
        ("read", ["//"], "the whole machine cannot be opened"),
        ("mode", "docker", "bwrap"),
    ],
)
def test_what_makes_no_sense_is_refused(key: str, value: object, why: str) -> None:
    """A typo never opens or closes something else."""
    with pytest.raises(ValidationError, match=why):
        SandboxSettings.model_validate({key: value})
