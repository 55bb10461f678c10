"""WikiText-2: two million words of good Wikipedia articles (Merity et al., ICLR 2017), for language models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from workloads.data import Split, appearing, load_array
from workloads.datasets.base import About, Dataset, Facts, check_count
from workloads.datasets.files import RawFiles

EOS = "<eos>"
WORDS = 33_278
TOKENS = {"train": 2_088_628, "valid": 217_646, "test": 245_569}
"""Number of tokens, with one end-of-sentence per line (Merity et al., table 1)."""
SHA256 = {  # of wiki.*.tokens = *.txt in pytorch/examples, word_language_model; their SHA-1 sums are those that Apache
    # MXNet (gluon.contrib.data.text) lists for the members of wikitext-2-v1.zip
    "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
    "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
}


@final
@dataclass(frozen=True, kw_only=True)
class WikiText2(Dataset):
    """A sample is ``sequence_length`` tokens and the token after each: inputs and targets int64 [N, sequence_length].

    Sequences are consecutive and do not overlap; since they are shuffled, no state is carried from one to the next.
    ``vocabulary`` is the number of words that a model knows: a text with more is refused. ``held_out`` names the part
    for evaluation.
    """

    name = "wikitext2"
    about = About(
        what="2,088,628 words of Wikipedia, 33,278 different ones",
        licence="CC BY-SA 3.0",
        source="https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip or pytorch/examples",
        files="wikitext-2-v1.zip, wiki.{train,valid,test}.tokens or {train,valid,test}.txt",
    )

    sequence_length: int = 35
    vocabulary: int = WORDS
    held_out: Literal["valid", "test"] = "valid"

    def __post_init__(self) -> None:
        if not 1 <= self.sequence_length < TOKENS["valid"]:
            raise ValueError(f"sequence_length={self.sequence_length}: must be at least 1 and below {TOKENS['valid']}")
        if self.vocabulary < 2:
            raise ValueError(f"vocabulary={self.vocabulary}: must be at least 2")
        if self.verify and self.vocabulary < WORDS:
            raise ValueError(
                f"vocabulary={self.vocabulary}: WikiText-2 has {WORDS} different words, so at least that many"
            )

    @property
    def num_samples(self) -> int | None:
        """Number of complete sequences; the last token is only a target."""
        return (TOKENS["train"] - 1) // self.sequence_length if self.verify else None

    @property
    def facts(self) -> Facts:
        """The size of the vocabulary."""
        return Facts(input_shape=(self.sequence_length,), num_classes=self.vocabulary, vocabulary=self.vocabulary)

    def variant(self) -> str:
        """No settings: sequences are cut on loading, and the vocabulary is checked on numbering."""
        return "" if self.vocabulary == WORDS else f"_words{self.vocabulary}"

    def convert(self, raw: Path, directory: Path) -> None:
        """Number the words in the order in which the training text has them."""
        files = RawFiles(raw, self.cure)
        names = {part: self._name(files, part) for part in TOKENS}
        texts = {part: self._text(files, names[part], part) for part in TOKENS}
        ids: dict[str, int] = {EOS: 0}
        streams: dict[str, NDArray[np.int64]] = {}
        for part, text in texts.items():
            try:
                streams[part] = number(text, ids, grow=part == "train")
            except ValueError as error:
                raise files.error(names[part], str(error)) from None
            if self.verify:
                check_count(f"{files.where(names[part])}: tokens", len(streams[part]), TOKENS[part], self.cure)
        if len(ids) > self.vocabulary:
            raise files.error(
                names["train"], f"has {len(ids):,} different words, more than vocabulary={self.vocabulary}"
            )
        with appearing(directory) as partial:
            (partial / "words.txt").write_text("".join(f"{word}\n" for word in ids), encoding="utf-8")
            for part, stream in streams.items():
                np.save(partial / f"{part}.npy", stream)

    def load(self, data_dir: str) -> Split:
        """Views of the mapped streams; nothing is copied."""
        directory = self.directory(data_dir)
        return Split(
            train=cut(load_array(directory, "train"), self.sequence_length),
            test=cut(load_array(directory, self.held_out), self.sequence_length),
        )

    def _name(self, files: RawFiles, part: str) -> str:
        return f"wiki.{part}.tokens" if f"wiki.{part}.tokens" in files else f"{part}.txt"

    def _text(self, files: RawFiles, name: str, part: str) -> str:
        content = files.read(name)
        if self.verify:
            files.check_sha256(name, content, SHA256[part])
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise files.error(name, f"is not UTF-8 text (byte {error.start:,})") from error


def number(text: str, ids: dict[str, int], *, grow: bool) -> NDArray[np.int64]:
    """The words of ``text`` as ids, int64, with ``<eos>`` after each line; new words are numbered if ``grow``.

    Raises ``ValueError`` with the line of a word that is not in ``ids``.
    """
    stream: list[int] = []
    for at, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        for word in (*line.split(), EOS):
            known = ids.get(word)
            if known is None:
                if not grow:
                    raise ValueError(
                        f"line {at} has the word {word[:40]!r}, which is not in the training text's vocabulary"
                    )
                known = ids[word] = len(ids)
            stream.append(known)
    return np.array(stream, dtype=np.int64)


def cut(stream: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(tokens, the token after each), both [N, length] views of ``stream``, without an incomplete last sequence."""
    whole = (len(stream) - 1) // length * length
    return stream[:whole].reshape(-1, length), stream[1 : whole + 1].reshape(-1, length)
