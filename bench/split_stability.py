"""What one random edit costs: chunks of the new text that the old one did not have, for each kind of text; and the splitter's speed.

`python bench/split_stability.py [--edits N] [--seed S] [--json FILE]`. Made texts only, so that it runs anywhere.
An edit's own size is taken off: one chunk for each `chars_max` inserted, and for a moved paragraph the one that it lands in.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from indexer.split.cut import SplitSettings, cut
from store.model import LoadedText

SYLLABLES = tuple(re.findall(r"\w+", "ka lo mi ren tas vu shel tor in qua ber dex fo gri han jul nem op pra sut wy zen al con de er"))
HAN = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种"
    "面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本"
    "去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比"
    "或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总"
    "次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做"
    "必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权"
    "收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信"
    "马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连"
)


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words = ["".join(self.random.choices(SYLLABLES, k=self.random.choice((1, 1, 2, 2, 3)))) for _ in range(4000)]

    def word(self) -> str:
        return self.words[min(int(self.random.paretovariate(0.7)) - 1, 3999)]

    def sentence(self) -> str:
        words = [self.word() for _ in range(self.random.randint(5, 28))]
        return " ".join(words).capitalize() + self.random.choice(".....?!")

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self.random.randint(1, 8)))

    def han(self, count: int) -> str:
        return "".join(self.random.choices(HAN, k=count))

    def han_sentence(self) -> str:
        return "，".join(self.han(self.random.randint(4, 16)) for _ in range(self.random.randint(1, 4))) + "。"

    def csv_row(self) -> str:
        pick = self.random
        return f"{pick.randint(1, 99999)},{self.word()},{pick.choice(('EU', 'US', 'CN'))},{pick.random():.3f},{self.word()} {self.word()}"

    def log_line(self) -> str:
        pick = self.random
        if pick.random() < 0.05:
            return f"    at {self.word()}.{self.word()}({self.word()}.java:{pick.randint(1, 900)})"
        level = pick.choice(("INFO", "INFO", "WARN", "DEBUG"))
        stamp = f"2026-11-{pick.randint(1, 30):02} 10:{pick.randint(0, 59):02}:{pick.randint(0, 59):02}"
        return f"{stamp} {level} {self.word()}: {self.word()} {self.word()} done"

    def code_block(self) -> str:
        lines = [f"def {self.word()}_{self.word()}({self.word()}):"]
        lines += [
            f"{' ' * 4 * self.random.randint(1, 3)}{self.word()} = {self.word()}({self.word()}, {self.random.randint(0, 9)})"
            for _ in range(self.random.randint(2, 25))
        ]
        return "\n".join(lines)

    def markdown_section(self) -> str:
        parts = [f"{'#' * self.random.choice((2, 2, 3, 3, 4))} {self.word()} {self.word()}".title()]
        for _ in range(self.random.randint(1, 6)):
            kind = self.random.random()
            if kind < 0.15:
                parts.append("```python\n" + self.code_block() + "\n```")
            elif kind < 0.25:
                rows = [f"| {self.word()} | {self.word()} |" for _ in range(self.random.randint(2, 30))]
                parts.append("\n".join(["| name | text |", "|---|---|", *rows]))
            elif kind < 0.4:
                parts.append("\n".join(f"- {self.sentence()}" for _ in range(self.random.randint(2, 8))))
            else:
                parts.append(self.paragraph())
        return "\n\n".join(parts)


def wrap(words: list[str], width: int = 78) -> str:
    lines, line = [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def grown(chars: int, piece: Callable[[], str], joint: str) -> str:
    pieces: list[str] = []
    total = 0
    while total < chars:
        pieces.append(piece())
        total += len(pieces[-1]) + len(joint)
    return joint.join(pieces)


KINDS: dict[str, tuple[str, str, Callable[[Maker], Callable[[], str]]]] = {
    "paragraphs": ("text/plain", "\n\n", lambda maker: maker.paragraph),
    "prose, no blank line": ("text/plain", " ", lambda maker: maker.sentence),
    "wrapped lines": ("text/plain", "\n\n", lambda maker: lambda: wrap(" ".join(maker.paragraph() for _ in range(6)).split())),
    "markdown": ("text/markdown", "\n\n", lambda maker: maker.markdown_section),
    "csv": ("text/csv", "\n", lambda maker: maker.csv_row),
    "log": ("text/x-log", "\n", lambda maker: maker.log_line),
    "code": ("text/x-python", "\n\n", lambda maker: maker.code_block),
    "chinese": ("text/plain", "", lambda maker: maker.han_sentence),
    "chinese, no marks": ("text/plain", "", lambda maker: lambda: maker.han(100)),
    "one line of words": ("text/plain", " ", lambda maker: maker.word),
    "one line of hex": ("text/plain", "", lambda maker: lambda: f"{maker.random.getrandbits(256):064x}"),
    "repeats, some edits": ("text/plain", "\n", lambda maker: lambda: "same line" if maker.random.random() < 0.97 else maker.sentence()),
}


def load(kind: str, text: str) -> LoadedText:
    media_type = KINDS[kind][0]
    if media_type == "text/markdown":
        from indexer.load.registry import load as load_document

        return load_document("a.md", text.encode())
    return LoadedText(text, media_type)


def edit(pick: random.Random, text: str, kind: str) -> tuple[str, int]:
    """Returns the edited text and the edit's own size in characters (a moved paragraph counts as -1)."""
    unit = Maker(pick.randrange(1 << 30))
    joint = KINDS[kind][1]
    piece = KINDS[kind][2](unit)()[:600]
    at = pick.randrange(len(text))
    what = pick.choice(("insert", "insert word", "insert character", "delete", "delete word", "replace", "replace word", "move"))
    start = text.find(joint, at) + len(joint) if joint else at
    if start < len(joint):
        start = at
    span = pick.randint(20, 160)
    match what:
        case "insert":
            return text[:start] + piece + joint + text[start:], len(piece)
        case "insert word":
            return text[:at] + unit.word() + " " + text[at:], 0
        case "insert character":
            return text[:at] + pick.choice("xyz.,") + text[at:], 0
        case "delete":
            return text[:start] + text[start + span :], 0
        case "delete word":
            return text[:at] + text[at + 6 :], 0
        case "replace":
            return text[:start] + piece + joint + text[start + span :], len(piece)
        case "replace word":
            return text[:at] + unit.word() + text[at + 6 :], 0
        case _:
            moved = text[start : start + span * 3]
            rest = text[:start] + text[start + span * 3 :]
            to = pick.randrange(len(rest))
            return rest[:to] + moved + joint + rest[to:], -1


def chunk_texts(loaded: LoadedText, settings: SplitSettings) -> Counter[str]:
    return Counter(loaded.text[piece.start : piece.end] for piece, _ in cut(loaded, settings))


def changed(before: Counter[str], after: Counter[str], own: int, settings: SplitSettings) -> int:
    new = sum((after - before).values())
    return new - (1 if own < 0 else own // settings.chars_max)


def measure_stability(
    kind: str, edits: int, seed: int, settings: SplitSettings, sizes: tuple[int, ...] = (20_000, 60_000, 200_000)
) -> dict[str, float | str]:
    pick = random.Random(seed)
    costs: list[int] = []
    lengths: list[int] = []
    for round_ in range(5):
        maker = Maker(seed * 100 + round_)
        text = grown(pick.choice(sizes), KINDS[kind][2](maker), KINDS[kind][1])
        if kind.startswith("one line"):
            text = text[:60_000]
        before = chunk_texts(load(kind, text), settings)
        lengths += [len(chunk) for chunk in before.elements()]
        for _ in range(edits // 5):
            edited, own = edit(pick, text, kind)
            costs.append(changed(before, chunk_texts(load(kind, edited), settings), own, settings))
    costs.sort()
    return {
        "kind": kind,
        "edits": len(costs),
        "mean": round(statistics.fmean(costs or [0]), 2),
        "p99": costs[int(len(costs) * 0.99)] if costs else 0,
        "max": costs[-1] if costs else 0,
        "median_length": round(statistics.median(lengths) / settings.chars_max, 2),
        "shorter_than_min": round(sum(length < settings.chars_min for length in lengths) / len(lengths), 3),
    }


def measure_speed(kind: str, seed: int, settings: SplitSettings) -> dict[str, float | str]:
    text = grown(4_000_000, KINDS[kind][2](Maker(seed)), KINDS[kind][1])
    loaded = load(kind, text)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        cut(loaded, settings)
        took.append(time.perf_counter() - began)
    return {"kind": kind, "mb_per_second": round(len(text.encode()) / 1e6 / min(took), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--chars-max", type=int, default=1200)
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-speed", action="store_true")
    options = parser.parse_args()
    settings = SplitSettings(chars_max=options.chars_max, chars_min=options.chars_max // 4)
    rows: list[dict[str, float | str]] = []
    for kind in [options.kind] if options.kind else KINDS:
        row = measure_stability(kind, options.edits, options.seed, settings)
        if not options.no_speed:
            row |= measure_speed(kind, options.seed, settings)
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
