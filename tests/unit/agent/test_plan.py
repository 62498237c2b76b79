"""Where cuts fall, by the faults that made them necessary."""

import pytest

from nanobot.agent.budget import result_chars
from nanobot.agent.govern import Governor, answer_room, prompt_budget
from nanobot.agent.meter import Gauge, Ratios
from nanobot.agent.passes import Boundaries, govern
from nanobot.agent.plan import CannotFit, plan
from nanobot.messages import AssistantMessage, ImagePart, Message, ToolCall, ToolMessage, UserMessage, user_text

CHATTY = frozenset({"read_file"})
START = Boundaries(chatty=CHATTY)


class Talk:
    """Builds a history with entry ids in order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._last = 0

    def entry(self) -> str:
        self._last += 1
        return f"e{self._last}"

    def user(self, text: str) -> "Talk":
        self.messages.append(user_text(text, entry=self.entry()))
        return self

    def says(self, text: str) -> "Talk":
        self.messages.append(AssistantMessage(text, entry=self.entry()))
        return self

    def reads(self, size: int, *, tool: str = "read_file", count: int = 1) -> "Talk":
        entry = self.entry()
        calls = tuple(ToolCall(f"{entry}.{i}", tool, {"path": f"{entry}-{i}.txt"}) for i in range(count))
        self.messages.append(AssistantMessage("", calls, entry=entry))
        for call in calls:
            self.messages.append(ToolMessage(call.id, tool, _text(size), entry=self.entry()))
        return self


def _text(size: int) -> str:
    return ("lorem ipsum dolor sit amet\n" * (size // 27 + 1))[:size]


def gauge(overhead: int = 0) -> Gauge:
    return Gauge(model="m", ratios=Ratios(), overhead=overhead)


def view(messages: list[Message], budget: int, *, overhead: int = 0) -> list[Message]:
    out = govern(messages, plan(messages, START, budget=budget, gauge=gauge(overhead)))
    assert gauge(overhead).measure(out) <= budget
    return out


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_what_fits_is_not_touched() -> None:
    """No cut is made before there is a need: each one costs the provider's cache."""
    talk = Talk().user("q").reads(3_000).says("a").user("q2")

    assert plan(talk.messages, START, budget=100_000, gauge=gauge()) == START


def test_old_results_become_lines_first() -> None:
    """When old results are what fills the window, they alone go: ten stay, and every word that was said."""
    talk = Talk()
    for i in range(30):
        talk.user(f"q{i}").reads(4_000).says(f"a{i}")
    talk.user("and?")

    out = view(talk.messages, 34_000)

    results = [m for m in out if isinstance(m, ToolMessage)]
    assert sum(len(m.text) == 4_000 for m in results) == 10
    assert len(results) == 30
    assert [f"q{i}" in texts(out) and f"a{i}" in texts(out) for i in range(30)] == [True] * 30


def test_compacting_early_saves_a_summary() -> None:
    """Before the window is full, old results go if that alone makes much room; otherwise nothing moves."""
    results = Talk()
    for i in range(30):
        results.user(f"q{i}").reads(4_000).says("a")
    words = Talk()
    for _ in range(30):
        words.user(_text(4_000)).says("a")
    size = gauge().measure(results.messages)

    assert plan(results.messages, START, budget=int(size / 0.9), gauge=gauge()).compact_before > 0
    assert plan(words.messages, START, budget=int(size / 0.9), gauge=gauge()) == START


def test_b02_a_turn_may_outgrow_the_window() -> None:
    """B02: five reads of 60 kB in one Turn against 24k tokens: every request fits, and the request stays in it."""
    talk = Talk().user("read them all")
    for _ in range(5):
        talk.reads(60_000)
        out = view(talk.messages, 24_000)

        assert any(m.text == "read them all" for m in out)
        assert out[-1].entry == talk.messages[-1].entry


def test_b19_the_open_question_stays() -> None:
    """B19: with most of the window taken by the system prompt, the last answer and the "yes" to it are still there."""
    talk = Talk()
    for i in range(20):
        talk.user(f"q{i} {_text(900)}").says(f"a{i} {_text(900)}")
    talk.says("ignored").messages.pop()
    talk.messages[-1] = AssistantMessage("Shall I delete /tmp/x? " + _text(1_500), entry=talk.messages[-1].entry)
    talk.user("yes")

    out = view(talk.messages, 16_000, overhead=14_500)

    assert any(text.startswith("Shall I delete /tmp/x?") for text in texts(out))
    assert out[-1].text == "yes"


def test_b19_the_question_stays_inside_a_turn_too() -> None:
    """The answer that "yes" replied to survives a cut in the middle of the Turn that "yes" began."""
    talk = Talk().user("clean up").says("Shall I delete /tmp/x?").user("yes")
    for _ in range(60):
        talk.reads(2_000, tool="remember")

    out = view(talk.messages, 6_000)

    assert "Shall I delete /tmp/x?" in texts(out)
    assert "yes" in texts(out)


def test_b20_five_huge_results_are_cut_until_they_fit() -> None:
    """B20: one Turn with five huge results and 8k tokens ends in a request that fits, in one plan."""
    talk = Talk().user("go")
    for _ in range(5):
        talk.reads(200_000, tool="remember")

    out = view(talk.messages, 8_000)

    assert out[-1].entry == talk.messages[-1].entry
    assert "read_result" in out[-1].text


def test_b22_steps_that_were_left_out_are_listed() -> None:
    """B22: after a cut inside a Turn the request is there once, with the steps that were taken, so the work is not begun again."""
    talk = Talk().user("do it")
    for _ in range(80):
        talk.reads(1_500, tool="remember")

    out = view(talk.messages, 5_000)

    assert texts(out).count("do it") == 1
    steps = next(m for m in out if "Steps already taken" in m.text)
    assert "- remember" in steps.text
    assert "characters, e" in steps.text


def test_b26_no_person_said_anything() -> None:
    """B26: a history without a single user row is cut and stays legal."""
    talk = Talk()
    for _ in range(500):
        talk.reads(500, tool="remember")

    out = view(talk.messages, 4_000)

    assert isinstance(out[0], UserMessage)


def test_a_round_of_many_calls_fits() -> None:
    """Three hundred calls in one answer leave each result what the window has for it."""
    talk = Talk().user("go").reads(2_000, tool="remember", count=300)

    out = view(talk.messages, 40_000)

    assert sum(isinstance(m, ToolMessage) for m in out) == 300


def test_ten_results_give_way_when_they_alone_do_not_fit() -> None:
    """The guarantee to fit wins over the ten newest results; the newest one goes last."""
    talk = Talk().user("go")
    for _ in range(12):
        talk.reads(9_000)

    out = view(talk.messages, 12_000)

    verbatim = [m for m in out if isinstance(m, ToolMessage) and len(m.text) == 9_000]
    assert 1 <= len(verbatim) < 10
    assert verbatim[-1].entry == talk.messages[-1].entry


def test_messages_sent_while_a_turn_ran_stay() -> None:
    """What a person added to a running request is as much a part of it as its first message."""
    talk = Talk().user("translate all files").reads(1_000, tool="remember").user("into French please")
    for _ in range(60):
        talk.reads(1_500, tool="remember")

    out = view(talk.messages, 5_000)

    assert "translate all files" in texts(out)
    assert "into French please" in texts(out)


def test_one_giant_message_is_named() -> None:
    """A message that cannot fit ends the Turn with one sentence that says which it is and how much room there is."""
    talk = Talk().user("q").says("a").user(_text(200_000))

    with pytest.raises(
        CannotFit, match=r"your message \(e3\) takes about \d+ tokens, and there is room for 7000"
    ) as caught:
        plan(talk.messages, START, budget=8_000, gauge=gauge(1_000))

    assert "\n" not in str(caught.value)


def test_the_next_message_after_a_giant_one_is_answered() -> None:
    """B01: what could not be sent is left out once it is not the newest any more."""
    talk = Talk().user("q").says("a").user(_text(200_000)).user("hi")

    out = view(talk.messages, 8_000)

    assert out[-1].text == "hi"
    assert all(len(m.text) < 1_000 for m in out)


def test_tools_that_fill_the_window_are_named() -> None:
    """B04: when the schemas alone are too much, the sentence does not blame the message."""
    with pytest.raises(CannotFit, match="the system prompt and the tools alone"):
        plan(Talk().user("hi").messages, START, budget=8_000, gauge=gauge(9_000))


def test_images_go_before_words_do() -> None:
    """Old pictures are left out, with their path; the newest request keeps its own."""
    old = UserMessage((ImagePart("/old.png", "image/png", "0"),) * 8, entry="e1")
    new = UserMessage((ImagePart("/new.png", "image/png", "1"),), entry="e2")
    messages: list[Message] = [old, new]  # neither was answered yet

    out = view(messages, 6_000)

    assert out[-1] is new
    assert "/old.png" in out[-2].text


def test_cuts_come_in_steps() -> None:
    """As a session grows by a little each time, cuts are rare: each one makes room for many requests."""
    talk = Talk()
    at = START
    moves = requests = 0
    for i in range(300):
        talk.user(f"question {i} {_text(300)}").reads(1_200).says(f"answer {_text(300)}")
        talk.user("go on")
        after = plan(talk.messages, at, budget=20_000, gauge=gauge())
        moves += after != at
        requests += 1
        at = after
        talk.says("ok")

    assert moves < requests / 10


def test_a_refused_request_is_cut_harder_and_the_window_is_learned() -> None:
    """What the provider says of its window is believed, and a larger one than ours means that our count was wrong."""
    talk = Talk()
    for _ in range(60):
        talk.user(_text(1_000)).says(_text(1_000))
    talk.user("now")
    governor = Governor(budget_tokens=100_000, boundaries=START, gauge=gauge())
    first = governor.fit(talk.messages)

    window = governor.harder(first.messages, 16_000, 2_000)
    second = governor.fit(talk.messages)

    assert not first.cuts
    assert window == 16_000
    assert second.tokens <= prompt_budget(16_000, 2_000)
    assert {cut.pass_name for cut in second.cuts} == {"snip"}
    assert second.cuts[0].why == "the provider refused the request as too long"


@pytest.mark.parametrize("said", [None, 1_000_000])
def test_a_refusal_without_a_usable_number_cuts_harder_all_the_same(said: int | None) -> None:
    """The second request is clearly smaller than the refused one."""
    talk = Talk()
    for _ in range(60):
        talk.user(_text(1_000)).says(_text(1_000))
    talk.user("now")
    governor = Governor(budget_tokens=50_000, boundaries=START, gauge=gauge())
    first = governor.fit(talk.messages)

    governor.harder(first.messages, said, 2_000)

    assert len(governor.fit(talk.messages).messages) < 0.8 * len(first.messages)


@pytest.mark.parametrize("window", [4_000, 8_192, 32_000, 200_000])
def test_a_small_window_keeps_room_for_the_prompt(window: int) -> None:
    """Room for the answer never takes most of a window, whatever max_tokens says."""
    assert prompt_budget(window, 8_192) >= 0.7 * window
    assert answer_room(window, 8_192) <= window // 4


def test_results_share_the_window() -> None:
    """One result has its tool's limit where there is room; many share it; a tool that pages itself keeps its own."""
    assert result_chars(16_000, window=200_000, calls=1, bounds_itself=False) == 16_000
    assert result_chars(16_000, window=200_000, calls=10, bounds_itself=False) == 6_400
    assert result_chars(16_000, window=8_000, calls=1, bounds_itself=False) == 3_600
    assert result_chars(16_000, window=8_000, calls=500, bounds_itself=False) == 1_000
    assert result_chars(500, window=8_000, calls=500, bounds_itself=False) == 500
    assert result_chars(16_000, window=8_000, calls=500, bounds_itself=True) == 16_000
