"""The error of token estimates, against recorded counts or, with ``nanobot[tokens]`` installed, against the vocabularies.

``python -m bench.tokens`` prints a table; ``--write`` counts the texts of ``tests/unit/agent/token_counts.json`` anew.
"""

import json
import sys
from pathlib import Path

from nanobot.agent.counting import counter_for
from nanobot.agent.tokens import estimate_text

CORPUS = Path(__file__).parent.parent / "tests/unit/agent/token_counts.json"
_VOCABULARIES = {"o200k": "gpt-5", "cl100k": "gpt-4"}


def main() -> int:
    """Print each kind of text: counts, estimate, and the estimate's share of the larger count; 1 if one is below 90 %."""
    rows = json.loads(CORPUS.read_text("utf-8"))
    counters = {name: counter_for(model) for name, model in _VOCABULARIES.items()}
    worst = 9.9
    sys.stdout.write(f"{'kind':<16}{'chars':>7}{'o200k':>7}{'cl100k':>8}{'estimate':>10}{'of larger':>11}\n")
    for kind, row in rows.items():
        row |= {name: count(row["text"]) for name, count in counters.items() if count}
        estimate, real = estimate_text(row["text"]), max(row["o200k"], row["cl100k"])
        worst = min(worst, estimate / real)
        sizes = f"{len(row['text']):>7}{row['o200k']:>7}{row['cl100k']:>8}{estimate:>10}"
        sys.stdout.write(f"{kind:<16}{sizes}{estimate / real:>11.2f}\n")
    source = "counted now" if all(counters.values()) else "as recorded; install nanobot[tokens] to count them"
    sys.stdout.write(f"lowest {worst:.2f} (at least 0.90); counts {source}\n")
    if "--write" in sys.argv:
        CORPUS.write_text(json.dumps(rows, ensure_ascii=False, indent=1), "utf-8")
    return int(worst < 0.9)


if __name__ == "__main__":
    sys.exit(main())
