"""What a Turn costs: of text, of ten tool calls, in sessions that grow, and with many sessions in flight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bench.contest import HTTP, OURS, PAUSED, PEER_LIST, SDK, Contestant, compete
from bench.contestants.driver import Figures, Job
from bench.table import Row, middle, spread

Pick = Callable[[Figures], float]
Found = Mapping[str, Sequence[Figures]]

HISTORIES = (10, 1_000, 10_000, 100_000)
IN_FLIGHT = (1, 10, 100, 500, 2_000)
REPEATS = 5
_FLOORS = (OURS, SDK, HTTP)
_TEN = "[bench tools=10 TOOL]"
_TEN_AT_ONCE = "[bench tools=10 width=10 TOOL]"


async def text_turn(*, peers: bool) -> Sequence[Row]:
    """Measure a Turn of text in a young session, on both wires, and as the first one of its session."""
    found = await compete(Job(turns=40, warm=5), (*_FLOORS, *_peers(peers)), repeats=REPEATS)
    other = await compete(Job(turns=40, warm=5, wire="anthropic"), _FLOORS, repeats=REPEATS)
    first = await compete(Job(turns=40, warm=5, fresh=True), _FLOORS, repeats=REPEATS)
    return [
        _row("text Turn, CPU, openai", "ms", found, _cpu, most_over=1.5),
        _row("text Turn, wall, openai", "ms", found, _wall),
        _row("text Turn, CPU, anthropic", "ms", other, _cpu, most_over=1.5),
        _row("text Turn, wall, anthropic", "ms", other, _wall),
        _row("first Turn of a session, CPU, openai", "ms", first, _cpu),
        _row("text Turn, bytes written", "bytes", found, lambda one: one.written_bytes, floors=False, most=8_192),
        _row("memory after a few Turns", "MB", found, lambda one: one.idle_mb),
    ]


async def tool_turn(*, peers: bool) -> Sequence[Row]:
    """Measure a Turn of ten tool calls: one after the other (eleven requests), and all at once (two)."""
    one_by_one = Job(text=_TEN, turns=6, warm=3, requests=11, fresh=True)
    at_once = Job(text=_TEN_AT_ONCE, turns=10, warm=1, requests=2, fresh=True)
    found = await compete(one_by_one, (*_FLOORS, PAUSED, *_peers(peers)), repeats=REPEATS)
    other = await compete(replace(one_by_one, wire="anthropic"), (*_FLOORS, PAUSED), repeats=REPEATS)
    parallel = await compete(at_once, (*_FLOORS, *_peers(peers)), repeats=REPEATS)
    return [
        _row("10 tool calls in 11 requests, CPU, openai", "ms", found, _cpu, most_over=12),
        _row("10 tool calls in 11 requests, CPU, anthropic", "ms", other, _cpu, most_over=12),
        _row("10 tool calls at once in 2 requests, CPU", "ms", parallel, _cpu),
    ]


async def growth(*, peers: bool) -> Sequence[Row]:
    """Measure a Turn in sessions of 10 to 100,000 messages: settled ones, and once with all 10,000 in the prompt."""
    rows: list[Row] = []
    young = 0.0
    for history in HISTORIES:
        job = Job(history=history, turns=20, warm=10)
        chosen = (*_FLOORS, *(_peers(peers) if history == 10_000 else ()))
        found = await compete(job, chosen, repeats=3)
        row = _row(f"Turn after {history:,} messages, CPU", "ms", found, _cpu)
        young = young or row.value
        most = 1.3 * young if history == 10_000 else None
        rows += [
            replace(row, most=most),
            _row("  bytes written", "bytes", found, lambda one: one.written_bytes, floors=False, most=8_192),
            _row("  bytes read", "bytes", found, lambda one: one.read_bytes, floors=False),
        ]
    verbatim = Job(history=10_000, turns=10, warm=3, window=10_000_000)
    found = await compete(verbatim, _FLOORS, repeats=3)
    return [*rows, _row("Turn with 10,000 messages in the prompt, CPU", "ms", found, _cpu)]


async def in_flight(*, peers: bool) -> Sequence[Row]:
    """Measure many sessions at once: with the default number of Turns that may run, and with as many as there are sessions."""
    rows: list[Row] = []
    alone = 0.0
    for sessions in IN_FLIGHT:
        turns = max(2, min(40, 1_000 // sessions))
        chosen = (*_FLOORS, *(_peers(peers) if sessions == 500 else ()))
        found = await compete(Job(sessions=sessions, turns=turns), chosen, repeats=3)
        rows += _crowd(f"{sessions} in flight", found, is_target=sessions == 500)
        alone = alone or rows[-1].value
        if sessions > 1:
            kb = (rows[-1].value - alone) * 1024 / sessions
            rows.append(Row(what="  memory a session", unit="KB", value=kb))
    found = await compete(Job(sessions=500, turns=2, slots=500), _FLOORS, repeats=3)
    return [*rows, *_crowd("500 in flight, agent.concurrency 500", found, is_target=False)]


def _crowd(what: str, found: Found, *, is_target: bool) -> list[Row]:
    return [
        _row(f"{what}, Turns a second", "1/s", found, lambda one: one.turns_a_second),
        _row("  CPU of a Turn", "ms", found, _cpu),
        _row("  p99 of a Turn, wall", "ms", found, lambda one: one.p99_ms),
        _row("  event-loop lag, p99", "ms", found, lambda one: one.lag_p99_ms, most=50 if is_target else None),
        _row("  peak memory", "MB", found, lambda one: one.peak_mb, most=110 if is_target else None),
    ]


def _peers(wanted: bool) -> tuple[Contestant, ...]:
    return tuple(who for who in PEER_LIST if who.is_installed) if wanted else ()


def _cpu(figures: Figures) -> float:
    return figures.cpu_ms


def _wall(figures: Figures) -> float:
    return figures.wall_ms


def _row(
    what: str,
    unit: str,
    found: Found,
    pick: Pick,
    *,
    floors: bool = True,
    most_over: float | None = None,
    most: float | None = None,
) -> Row:
    """Return our median beside the floor's and everybody else's."""
    ours = [pick(figures) for figures in found[OURS.name]]
    others = {name: middle([pick(figures) for figures in all_of]) for name, all_of in found.items()}
    floor = others.pop(SDK.name) if floors else None
    skipped = {OURS.name, SDK.name, *(() if floors else (HTTP.name,))}
    return Row(
        what=what,
        unit=unit,
        value=middle(ours),
        spread=spread(ours),
        floor=floor,
        beside={name: value for name, value in others.items() if name not in skipped},
        most_over=most_over,
        most=most,
    )
