"""What ``write_file`` and ``edit_file`` do.  Blocks."""

from pathlib import Path

from nanobot.agent.tools.base import Planned, Probed, ToolContext
from nanobot.agent.tools.files import changes, seen
from nanobot.agent.tools.files.changes import Change, sha256
from nanobot.agent.tools.files.decode import Binary, sniff
from nanobot.agent.tools.files.editing import Edited, Replacement, replace_all_of
from nanobot.agent.tools.files.encoding import decoded, encoded, in_form_of
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.write import EditFileArguments, WriteFileArguments
from nanobot.agent.tools.files.writing import Version, Written, read_version, write_atomic
from nanobot.errors import ToolError
from nanobot.values import frozen

_MAX_OLD_BYTES = 1 << 30


class Writer:
    """Writes whole files that the rules open."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def plan(self, arguments: WriteFileArguments, context: ToolContext) -> Planned:
        """Hash before and after; keep the old content."""
        path, before, content, _ = self._wanted(arguments, context)
        return changes.planned([Change(path, before, content)], context.scratch)

    def probe(self, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return changes.probe(planned, context.scratch)

    def write(self, arguments: WriteFileArguments, context: ToolContext) -> str:
        """Write it; return what was done."""
        path, before, content, kept = self._wanted(arguments, context)
        walls = self._rules.walls(context.workspace)
        written = write_atomic(path, arguments.path, content, expected=before, is_new=before is None, walls=walls)
        seen.note(context, path, sha256(content))
        lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and arguments.content != "")
        size = f"{lines:,} line{'s' if lines != 1 else ''}, {len(content):,} bytes{kept}"
        return f"{'Replaced' if written.replaced else 'Created'} {arguments.path} ({size}).{_other_names(written)}"

    def _wanted(self, arguments: WriteFileArguments, context: ToolContext) -> tuple[Path, Version | None, bytes, str]:
        """Return the path, what is there, its new content, and in words what that keeps of the old one's form."""
        path = self._rules.resolve(arguments.path, context.workspace)
        if arguments.path.endswith("/"):
            raise ToolError(f"{arguments.path!r} names a directory; name a file in it.")
        walls = self._rules.walls(context.workspace)
        before = read_version(path, arguments.path, max_bytes=_MAX_OLD_BYTES, walls=walls)
        if before is not None:
            seen.refuse_if_changed(context, path, sha256(before.content), arguments.path)
        content, kept = in_form_of(before.content if before else b"", arguments.content)
        return path, before, content, kept


@frozen
class _Change:
    path: Path
    before: Version
    after: bytes
    edited: Edited


class Editor:
    """Changes parts of files that the rules open."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def plan(self, arguments: EditFileArguments, context: ToolContext) -> Planned:
        """Hash before and after; keep the old content."""
        change = self._change(arguments, context)
        return changes.planned([Change(change.path, change.before, change.after)], context.scratch)

    def probe(self, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return changes.probe(planned, context.scratch)

    def edit(self, arguments: EditFileArguments, context: ToolContext) -> str:
        """Change it; return what was done."""
        change = self._change(arguments, context)
        walls = self._rules.walls(context.workspace)
        written = write_atomic(change.path, arguments.path, change.after, expected=change.before, walls=walls)
        seen.note(context, change.path, sha256(change.after))
        count = len(change.edited.lines)
        where = ", ".join(str(line) for line in change.edited.lines[:10] if line)
        lines = f" (line{'s' if count != 1 else ''} {where})" if where else ""
        return (
            f"Changed {arguments.path}: {count} replacement{'s' if count != 1 else ''}{lines}.{_other_names(written)}"
        )

    def _change(self, arguments: EditFileArguments, context: ToolContext) -> _Change:
        path = self._rules.resolve(arguments.path, context.workspace)
        walls = self._rules.walls(context.workspace)
        before = read_version(path, arguments.path, max_bytes=seen.MAX_SEEN_BYTES, walls=walls)
        if before is None:
            raise ToolError(f"{arguments.path!r} does not exist; use write_file to create it.")
        seen.refuse_if_changed(context, path, sha256(before.content), arguments.path)
        form = sniff(before.content, complete=True)
        if isinstance(form, Binary):
            raise ToolError(f"{arguments.path!r} is not text ({form.kind}).")
        wanted = [Replacement(edit.old_text, edit.new_text, edit.replace_all) for edit in arguments.all_edits()]
        edited = replace_all_of(decoded(before.content, form, arguments.path), wanted)
        return _Change(path, before, encoded(edited.text, form), edited)


def _other_names(written: Written) -> str:
    return " It had other hard links; those keep the old content." if written.other_names else ""
