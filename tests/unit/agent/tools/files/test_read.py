"""read_file and list_dir."""

import os
import resource
import socket
import struct
from hashlib import sha256
from pathlib import Path

import pytest

from nanobot.agent.tools.files.listing import ListDir
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from tests.fakes.pictures import png
from tests.unit.agent.tools.conftest import Bench

READ = ReadFile(PathRules())
LIST = ListDir(PathRules())


async def test_lines_are_numbered_and_pages_follow_each_other(bench: Bench) -> None:
    """Each page says where the next begins, and together they are the file."""
    lines = [f"line {n} " + "x" * 50 for n in range(1, 1_000)]
    (bench.workspace / "a.txt").write_text("\n".join(lines) + "\n")
    tool = ReadFile(PathRules(), max_chars=3_000)
    seen: list[str] = []
    offset = 1
    for _ in range(100):
        text = await bench.text(tool, path="a.txt", offset=offset)
        assert len(text) <= 3_000
        rows = text.split("\n")
        seen += [row.split("\t", 1)[1] for row in rows if "\t" in row]
        if "go on with offset=" not in rows[-1]:
            break
        offset = int(rows[-1].split("offset=")[1].rstrip("]"))

    assert seen == lines


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "[a.txt is empty]"),
        (b"one", "1\tone"),
        (b"one\n", "1\tone"),
        (b"one\r\ntwo\r\n", "1\tone\n2\ttwo"),
        (b"\n\nx", "1\t\n2\t\n3\tx"),
        ("é→".encode("utf-8-sig"), "1\té→"),
        ("a\nbü".encode("utf-16"), "1\ta\n2\tbü\n[encoded as UTF-16-LE]"),
        ("Caf\xe9 au lait".encode("latin-1"), "1\tCaf\xe9 au lait\n[not valid UTF-8; shown as Latin-1]"),
    ],
)
async def test_h05_any_encoding_is_read_and_named(bench: Bench, content: bytes, shown: str) -> None:
    """Text comes out as text, and what is unusual about it is said."""
    (bench.workspace / "a.txt").write_bytes(content)

    assert await bench.text(READ, path="a.txt") == shown


async def test_h08_an_offset_beyond_the_end_says_how_many_lines_there_are(bench: Bench) -> None:
    """The model can correct the offset at once."""
    (bench.workspace / "a.txt").write_text("1\n2\n3")

    assert "has only 3 lines; offset 9" in await bench.error(READ, path="a.txt", offset=9)


async def test_h08_a_line_of_5_mb_is_clipped(bench: Bench) -> None:
    """A long line costs a page, not the window; the next line is still there."""
    (bench.workspace / "a.js").write_text("x" * 5_000_000 + "\nend\n")

    text = await bench.text(READ, path="a.js")

    assert len(text) <= 16_000
    assert "line clipped; it is 5,000,000 bytes long" in text
    assert text.endswith("2\tend")


async def test_h08_a_2_gb_file_is_read_in_bounded_memory(bench: Bench) -> None:
    """Size does not matter: a sparse file's beginning is read, its rest only skimmed or left."""
    with (bench.workspace / "big.log").open("wb") as file:
        file.write(b"first line of text\n" * 1_000)
        file.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    text = await bench.text(READ, path="big.log", limit=3)

    assert text.startswith("1\tfirst line of text\n2\t")
    assert "go on with offset=4" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/environ", "/proc/kmsg", "/sys/kernel/notes"])
async def test_h08_devices_and_kernel_files_are_refused(bench: Bench, path: str) -> None:
    """They could block or have no end, restricted or not."""
    assert "device or kernel file" in await bench.error(ReadFile(PathRules(restrict=False)), path=path)


async def test_h08_fifos_sockets_and_directories_are_refused_with_a_reason(bench: Bench) -> None:
    """Nothing that could block is opened."""
    os.mkfifo(bench.workspace / "fifo")
    (bench.workspace / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(bench.workspace, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/sock")
        finally:
            os.close(here)

        assert "is a FIFO" in await bench.error(READ, path="fifo")
        assert "is a socket" in await bench.error(READ, path="sock")
        assert "is a directory; use list_dir" in await bench.error(READ, path="dir")


async def test_binary_files_are_refused_with_what_they_are(bench: Bench) -> None:
    """The model learns type and size."""
    (bench.workspace / "a.bin").write_bytes(bytes(100))

    assert "is not text: binary data, 100 bytes" in await bench.error(READ, path="a.bin")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 640, 480), "PNG, 640 × 480 pixels"),
        (b"GIF89a" + struct.pack("<HH", 3, 4), "GIF, 3 × 4 pixels"),
        (
            b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 20, 10) + b"\x03",
            "JPEG, 10 × 20 pixels",
        ),
        (b"RIFF" + bytes(4) + b"WEBPVP8X" + bytes(8) + b"\x63\x00\x00\xc7\x00\x00", "WebP, 100 × 200 pixels"),
        (b"BM" + bytes(16) + struct.pack("<ii", 7, -8), "BMP, 7 × 8 pixels"),
        (b"\x89PNG\r\n\x1a\n", "PNG, 8 bytes"),
    ],
)
async def test_an_image_is_described(bench: Bench, content: bytes, said: str) -> None:
    """Kind and size in pixels, from its own first bytes; a torn one is still an image."""
    (bench.workspace / "a.img").write_bytes(content)

    assert f"[a.img is an image: {said}" in await bench.text(READ, path="a.img")


async def test_a_picture_is_kept_and_shown(bench: Bench) -> None:
    """As it is now, under its content's name and true kind; what becomes of the file afterwards changes nothing."""
    (bench.workspace / "dot.img").write_bytes(png(3, 4))

    observation = await bench.call(READ, path="dot.img")

    (bench.workspace / "dot.img").unlink()
    (image,) = observation.images
    assert (image.name, image.media_type, image.sha256) == ("dot.img", "image/png", sha256(png(3, 4)).hexdigest())
    assert Path(image.path) == bench.root / "media" / f"{image.sha256}.png"
    assert Path(image.path).read_bytes() == png(3, 4)
    assert observation.text.endswith("It is shown with this result.]")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (png(10, 9_000), "10×9000 pixels are more than 8000 on a side"),
        (png(pad_bytes=4_000_000), "it is larger than 3.75 MB"),
        (png()[:20] + b"junk" * 10, "its data is damaged"),
        (b"BM" + bytes(16) + struct.pack("<ii", 7, -8), "it is no PNG, JPEG, GIF or WebP image"),
    ],
)
async def test_a_picture_that_vendors_refuse_is_not_shown_and_the_text_says_why(
    bench: Bench, content: bytes, why: str
) -> None:
    """It would be refused with everything else in its request; nothing of it is kept."""
    (bench.workspace / "a.img").write_bytes(content)

    observation = await bench.call(READ, path="a.img")

    assert observation.images == ()
    assert f"It is not shown: {why}." in observation.text
    assert not (bench.root / "media").exists()


async def test_a_picture_of_others_carries_whose_it_is(bench: Bench) -> None:
    """One from outside the workspace is somebody else's, as a text from there is."""
    outside = bench.root / "outside.png"
    outside.write_bytes(png())

    observation = await bench.call(ReadFile(PathRules(extra_roots=(bench.root,))), path=str(outside))

    assert (observation.origin, len(observation.images)) == (f"file {outside}", 1)


@pytest.mark.parametrize(
    ("encoding", "content"), [("cp1251", "Привет\nмир\n"), ("shift_jis", "日本\n語\n"), ("utf-32", "a\nü\n")]
)
async def test_h05_an_old_encoding_is_read_when_named(bench: Bench, encoding: str, content: str) -> None:
    """What cannot be recognized is read by name; a wrong name says so."""
    (bench.workspace / "a.txt").write_bytes(content.encode(encoding))
    wanted = [f"{number}\t{line}" for number, line in enumerate(content.splitlines(), start=1)]

    text = await bench.text(READ, path="a.txt", **({} if encoding == "utf-32" else {"encoding": encoding}))

    assert text.splitlines()[:2] == wanted
    assert "is no encoding" in await bench.error(READ, path="a.txt", encoding="base64")
    assert "is no encoding" in await bench.error(READ, path="a.txt", encoding="nonsense")


async def test_a_missing_file_gets_similar_names(bench: Bench) -> None:
    """A typo is corrected in one step."""
    (bench.workspace / "notes.md").write_text("x")

    assert "does not exist. Similar: notes.md" in await bench.error(READ, path="note.md")


async def test_a_listing_tells_kinds_sizes_and_links(bench: Bench) -> None:
    """Everything in the directory is shown for what it is."""
    root = bench.workspace
    (root / "b").mkdir()
    (root / ".hidden").write_text("xyz")
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")

    text = await bench.text(LIST)

    assert text.split("\n") == [
        "./ (4 entries)",
        ".hidden  3 bytes",
        "b/",
        "link -> /etc/passwd",
        "pipe  (device, FIFO or socket)",
    ]


async def test_a_long_listing_says_what_is_missing(bench: Bench) -> None:
    """Nothing is hidden."""
    for number in range(20):
        (bench.workspace / f"f{number:02}").touch()

    assert (await bench.text(LIST, limit=5)).endswith("[15 more entries; raise limit, or use glob]")


async def test_no_descriptor_is_left_open(bench: Bench) -> None:
    """Reads and refusals close what they opened."""
    (bench.workspace / "a.txt").write_text("x")
    (bench.workspace / "dir").mkdir()
    await bench.text(READ, path="a.txt")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await bench.text(READ, path="a.txt")
        await bench.error(READ, path="dir")
        await bench.error(READ, path="missing/x")
        await bench.text(LIST)

    assert len(os.listdir("/proc/self/fd")) == before
