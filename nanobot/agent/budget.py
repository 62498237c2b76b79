"""How long one tool result may be when it is logged.  Pure.

The tool's own limit holds where there is room for it.  In a small window, and among many results of one answer, each gets its
share: the model asked for all of them at once, so they must be able to stand side by side.  What does not fit is stored, not lost.
"""

ROUND_CHARS = 64_000  # what the results of one answer may have together
_RESULT_SHARE = 0.45  # characters of one result per token of the window: about an eighth of it
_ROUND_SHARE = 1.2  # ... of all results of one answer: about a third
_LEAST_CHARS = 1_000


def result_chars(own_chars: int, *, window: int, calls: int, bounds_itself: bool) -> int:
    """Return the limit of a result.

    Args:
        own_chars: the tool's limit.
        window: tokens.
        calls: how many calls the answer asked for.
        bounds_itself: the tool pages its output within its own limit, and what it gave is not stored a second time.
    """
    if bounds_itself:
        return own_chars
    share = min(ROUND_CHARS, int(window * _ROUND_SHARE)) // max(1, calls)
    return min(own_chars, max(_LEAST_CHARS, min(share, int(window * _RESULT_SHARE))))
