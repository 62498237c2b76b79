"""A policy in Landlock's words: what the launcher grants, where there are no namespaces to make.  Pure.

Landlock keeps files in and out; it has no file system of its own.  So ``HOME`` and ``TMPDIR`` lead to directories of the workspace,
/tmp is out of reach, and processes of others can be seen in /proc, though not looked into.  What it does not see, seccomp refuses:
sockets in the file system, any network where there is to be none, signals to the daemon on older kernels.  Modes and times of
files outside can still be changed by who owns them; docs/sandbox.md says so.
"""

from nanobot.agent.tools.sandbox.policy import Policy, Unusable

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_LOOKED_AT = ("/proc",)


def landlock_grants(policy: Policy) -> dict[str, list[str]]:
    """Return paths by the rights they are granted with.

    Raises:
        Unusable: something inside an opened tree is to stay closed, which Landlock cannot do.
    """
    if policy.hidden:
        raise Unusable(
            f"Landlock cannot keep {policy.hidden[0]!r} closed inside what is opened; install bubblewrap, or set `workspace` "
            "to a directory that does not hold it"
        )
    return {
        "read": list(policy.read),
        "write": [*policy.write, policy.places.home, policy.places.tmp],
        "look": list(_LOOKED_AT),
        "device": list(_DEVICES),
    }
