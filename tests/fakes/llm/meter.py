"""A prompt cache that only counts.

Two figures for each request: the tokens of the longest run of elements that an earlier request began with (``shared``), and what
the vendor would report as read from and written to its cache: all of that run where caching is automatic, and only up to marked
elements where the caller must mark.  A token is four bytes.
"""

from dataclasses import dataclass, field

from tests.fakes.llm.body import Element


def tokens_of(size: int) -> int:
    """Return the tokens that ``size`` bytes count as."""
    return -(-size // 4)


@dataclass(frozen=True, slots=True)
class Reading:
    """Tokens of one prompt: all, shared with an earlier one, read from and written to the vendor's cache."""

    prompt: int = 0
    shared: int = 0
    read: int = 0
    written: int = 0


@dataclass(slots=True)
class CacheMeter:
    """Remembers prompts as chained hashes of their elements, so the cost follows the length of the new prompt alone."""

    _seen: set[int] = field(default_factory=set[int])
    _written: set[int] = field(default_factory=set[int])

    def read(self, key: tuple[str, str], elements: list[Element], *, by_marks: bool) -> Reading:
        """Measure a prompt of ``key`` (wire and model) and remember it.  ``by_marks``: the vendor caches only up to marks."""
        chain = hash(key)
        size = shared = read = written = 0
        candidate = 0  # the longest prefix that is in the vendor's cache; read once a mark at or after it is seen
        marks: list[int] = []
        for element in elements:
            chain = hash((chain, element.raw))
            size += element.size
            if chain in self._seen:
                shared = size
            self._seen.add(chain)
            if chain in self._written:
                candidate = size
            if element.marked:
                marks.append(chain)
                read, written = candidate, size
        self._written.update(marks)
        if not by_marks:
            return Reading(tokens_of(size), tokens_of(shared), tokens_of(shared))
        return Reading(tokens_of(size), tokens_of(shared), tokens_of(read), tokens_of(written) - tokens_of(read))
