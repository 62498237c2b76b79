"""Messages in OpenAI form, as the log holds them."""

from nanobot.messages import ImagePart, JsonObject, ToolMessage, as_dict, from_dict


def test_a_result_with_pictures_is_read_back_equal() -> None:
    """The log names them by path and digest; nothing of the picture itself is in the line."""
    image = ImagePart("/media/ab.png", "image/png", "ab", "plots/cpu.png")
    message = ToolMessage("e2.0", "read_file", "[plots/cpu.png is an image]", entry="e3", shown=(image,))

    line = as_dict(message)

    assert from_dict(line, entry="e3") == message
    assert line["content"] == [
        {"type": "text", "text": "[plots/cpu.png is an image]"},
        {"type": "image", "path": "/media/ab.png", "media_type": "image/png", "sha256": "ab", "name": "plots/cpu.png"},
    ]


def test_a_result_without_pictures_is_a_text_as_it_always_was() -> None:
    """Old lines read as before, and what other programs wrote in blocks is one text."""
    foreign: JsonObject = {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    }

    assert as_dict(ToolMessage("e2.0", "exec", "ok"))["content"] == "ok"
    assert from_dict(foreign) == ToolMessage("c1", "", "a\nb")
