"""What ``apply_patch`` does: all files of a patch, or none.  Blocks."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from nanobot.agent.tools.base import Planned, Probed, ToolContext, one_line
from nanobot.agent.tools.files import changes, seen
from nanobot.agent.tools.files.changes import Change, sha256
from nanobot.agent.tools.files.decode import Binary, sniff
from nanobot.agent.tools.files.encoding import decoded, encoded
from nanobot.agent.tools.files.hunks import Applied, apply_hunks
from nanobot.agent.tools.files.opening import Walls
from nanobot.agent.tools.files.patching import FilePatch, parse_patch, plain_name
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.writing import Version, read_version, remove, write_atomic
from nanobot.errors import ToolError
from nanobot.values import frozen

_MAX_FILES = 200


@frozen
class _Step:
    """One file's part: ``change`` as it is logged, and what is needed to do and to tell it."""

    change: Change
    name: str
    mode: int | None = None
    said: str = ""  # a line of the answer; a rename says it once


class Patcher:
    """Applies patches to what the rules open."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def summary(self, tool: str, patch: str) -> str:
        """Return one short line for people, with the files that a patch names."""
        try:
            files = parse_patch(patch)
        except ToolError:
            return tool
        return one_line(" ".join((tool, *(plain_name(file.new or file.old or "") for file in files))))

    def plan(self, patch: str, context: ToolContext) -> Planned:
        """Hash before and after; keep the old contents."""
        return changes.planned([step.change for step in self._steps(patch, context)], context.scratch)

    def probe(self, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes; put a half-done patch back."""
        return changes.probe(planned, context.scratch)

    def apply(self, patch: str, context: ToolContext) -> str:
        """Change them; return what was done, a line a file.

        Raises:
            ToolError: it does not fit; nothing was changed.
        """
        steps = self._steps(patch, context)
        _write_all(steps, self._rules.walls(context.workspace))
        for step in steps:
            seen.note(context, step.change.path, None if step.change.after is None else sha256(step.change.after))
        said = [step.said for step in steps if step.said]
        return "\n".join((f"Patched {len(said)} file{'s' if len(said) != 1 else ''}:", *said))

    def _steps(self, patch: str, context: ToolContext) -> list[_Step]:
        files = parse_patch(patch)
        if len(files) > _MAX_FILES:
            raise ToolError(f"the patch has {len(files)} files; at most {_MAX_FILES} at once. Nothing was changed.")
        steps = [step for file in files for step in self._of_file(file, context)]
        paths = [step.change.path for step in steps]
        if twice := next((step.name for step in steps if paths.count(step.change.path) > 1), None):
            raise ToolError(
                f"the patch names {twice!r} twice; put all of its hunks below one header. Nothing was changed."
            )
        return steps

    def _of_file(self, file: FilePatch, context: ToolContext) -> list[_Step]:
        try:
            if file.old is None:
                return [self._create(file, context)]
            if file.new is None:
                return [self._delete(file, context)]
            return self._change(file, context)
        except ToolError as error:
            name = plain_name(file.new or file.old or "")
            raise ToolError(f"{name}: {str(error).rstrip()} Nothing was changed.") from None

    def _create(self, file: FilePatch, context: ToolContext) -> _Step:
        path, name, before = self._look(file.new or "", context)
        if before is not None:
            raise ToolError("it exists already, and the patch makes it anew (--- /dev/null).")
        if any(line.kind != "+" for hunk in file.hunks for line in hunk.lines):
            raise ToolError("a new file has only added lines.")
        lines = [line for hunk in file.hunks for line in hunk.lines]
        text = "".join(f"{line.text}\n" if line.newline else line.text for line in lines)
        return _Step(Change(path, None, encoded(text)), name, 0o755 if file.executable else None, f"created {name}")

    def _delete(self, file: FilePatch, context: ToolContext) -> _Step:
        path, name, before = self._existing(file.old or "", context)
        if before.content and _applied(before, name, file).text:
            raise ToolError("the patch removes the file but not all of its lines; read it again.")
        return _Step(Change(path, before, None), name, said=f"removed {name}")

    def _change(self, file: FilePatch, context: ToolContext) -> list[_Step]:
        old, new = file.old or "", file.new or ""
        if plain_name(old) == plain_name(new):
            path, name, before = self._existing(new, context)
            applied, content = self._content(before, name, file)
            return [_Step(Change(path, before, content), name, said=_told(f"changed {name}", file, applied))]
        path, name, before = self._existing(old, context)
        new_path, new_name, there = self._look(new, context)
        if there is not None:
            raise ToolError(f"{new_name!r} exists already; {name!r} cannot be renamed to it.")
        applied, content = self._content(before, name, file)
        said = _told(f"renamed {name} to {new_name}", file, applied)
        return [
            _Step(Change(new_path, None, content), new_name, before.mode, said),
            _Step(Change(path, before, None), name),
        ]

    def _content(self, before: Version, name: str, file: FilePatch) -> tuple[Applied, bytes]:
        if not file.hunks:
            return Applied("", ()), before.content
        form = sniff(before.content, complete=True)
        applied = _applied(before, name, file)
        return applied, encoded(applied.text, None if isinstance(form, Binary) else form)

    def _existing(self, raw: str, context: ToolContext) -> tuple[Path, str, Version]:
        path, name, before = self._look(raw, context)
        if before is None:
            raise ToolError("it does not exist; a new file is made with --- /dev/null.")
        seen.refuse_if_changed(context, path, sha256(before.content), name)
        return path, name, before

    def _look(self, raw: str, context: ToolContext) -> tuple[Path, str, Version | None]:
        """Return the path, its name, and what is there; a leading a/ or b/ is no directory unless there is one."""
        walls = self._rules.walls(context.workspace)
        for name in dict.fromkeys((raw, plain_name(raw)) if plain_name(raw) != raw else (raw,)):
            path = self._rules.resolve(name, context.workspace)
            if (before := read_version(path, name, max_bytes=seen.MAX_SEEN_BYTES, walls=walls)) is not None:
                return path, name, before
        return self._rules.resolve(plain_name(raw), context.workspace), plain_name(raw), None


def _applied(before: Version, name: str, file: FilePatch) -> Applied:
    form = sniff(before.content, complete=True)
    if isinstance(form, Binary):
        raise ToolError(f"it is not text ({form.kind}).")
    return apply_hunks(decoded(before.content, form, name), file.hunks)


def _write_all(steps: Sequence[_Step], walls: Walls) -> None:
    """Write all files; if one cannot be written, put back those before it.

    Raises:
        ToolError: one cannot be written.
    """
    done: list[_Step] = []
    try:
        for step in steps:
            _write(step, walls)
            done.append(step)
    except ToolError as error:
        left = [step.name for step in reversed(done) if not _put_back(step, walls)]
        what = f"these could not be put back: {', '.join(left)}" if left else "nothing was changed"
        raise ToolError(f"{error} So {what}.") from None


def _write(step: _Step, walls: Walls) -> None:
    change = step.change
    if change.after is None:
        remove(change.path, step.name, expected=change.before, walls=walls)
    else:
        is_new = change.before is None
        write_atomic(
            change.path, step.name, change.after, expected=change.before, is_new=is_new, mode=step.mode, walls=walls
        )


def _put_back(step: _Step, walls: Walls) -> bool:
    before = step.change.before
    with contextlib.suppress(ToolError):
        if before is None:
            remove(step.change.path, step.name, even_read_only=True, walls=walls)
        else:
            content, mode = before.content, before.mode
            write_atomic(step.change.path, step.name, content, mode=mode, even_read_only=True, walls=walls)
        return True
    return False


def _told(what: str, file: FilePatch, applied: Applied) -> str:
    count = len(file.hunks)
    hunks = f" ({count} hunk{'s' if count != 1 else ''})" if count else ""
    return f"{what}{hunks}" + (f"; {'; '.join(applied.notes)}" if applied.notes else "")
