"""UCI Adult (Becker and Kohavi 1996), for Wide & Deep: does a person of the 1994 census earn more than $50,000?"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.data import Split
from workloads.datasets.base import About, Dataset, Facts, check_count
from workloads.datasets.files import RawFiles

if TYPE_CHECKING:
    import pandas as pd

LINES = {"adult.data": 32_561, "adult.test": 16_281}
POSITIVES = {"adult.data": 7_841, "adult.test": 3_846}
SHA256 = {  # of the files at archive.ics.uci.edu, as many projects list them. The parquet form (in OpenML's order: test
    # first) has no published checksum: its lines and positives are counted instead
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
PARQUET = "adult.parquet.brotli"
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORIES = {  # the values listed in adult.names, "?" (unknown) first
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
WORDS = {field: ("?", *listed.split()) for field, listed in CATEGORIES.items()}
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
INCOMES = ("<=50K", ">50K")


@final
@dataclass(frozen=True, kw_only=True)
class Adult(Dataset):
    """Inputs float32 [N, 5 + 8], numbers followed by ids; targets float32 [N] (1: more than $50,000).

    Numbers have zero mean and unit standard deviation over the training part.
    Fields are as in TensorFlow's Wide & Deep tutorial; ``fnlwgt``, the weight of a record, is left out.
    """

    name = "adult"
    about = About(
        what="48,842 people of the 1994 census, by whether they earn more than 50,000 dollars",
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/2/adult",
        files="adult.data and adult.test",
    )

    @property
    def num_samples(self) -> int | None:
        return LINES["adult.data"] if self.verify else None

    @property
    def facts(self) -> Facts:
        cardinalities = tuple(len(words) for words in WORDS.values())
        return Facts(input_shape=(len(NUMBERS) + len(WORDS),), num_dense=len(NUMBERS), cardinalities=cardinalities)

    def convert(self, raw: Path, directory: Path) -> None:
        """Read two text files, or both parts from one Parquet file."""
        files = RawFiles(raw, self.cure)
        train, test = self._parquet(files) if PARQUET in files else [self._text(files, name) for name in LINES]
        numbers = train[list(NUMBERS)].to_numpy(np.float64)
        mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
        deviation[deviation == 0] = 1.0
        arrays = [_arrays(part, mean, deviation) for part in (train, test)]
        data.store(directory, Split(train=arrays[0], test=arrays[1]))

    def _text(self, files: RawFiles, name: str) -> pd.DataFrame:
        """Parse comma-and-space separated fields; the test part has one more line first, and dots at line ends."""
        import pandas as pd

        content = files.read(name)
        if self.verify:
            files.check_sha256(name, content, SHA256[name])
        lines = content.decode("utf-8", "replace").splitlines()
        rows = []
        for at, line in enumerate(lines, start=1):
            fields = [field.strip() for field in line.rstrip(".").split(",")]
            if not line.strip() or line.startswith("|"):
                continue
            if len(fields) != len(COLUMNS):
                raise files.error(name, f"line {at} has {len(fields)} columns instead of {len(COLUMNS)}")
            rows.append([*fields, at])
        return self._frame(files, name, pd.DataFrame(rows, columns=[*COLUMNS, "line"]))

    def _parquet(self, files: RawFiles) -> tuple[pd.DataFrame, pd.DataFrame]:
        import pandas as pd

        content = files.read(PARQUET)
        try:
            frame = pd.read_parquet(io.BytesIO(content))
        except (OSError, ValueError) as error:
            raise files.error(PARQUET, f"is no parquet that can be read ({error})") from error
        frame = frame.rename(columns={"educational-num": "education-num", "gender": "sex"})
        if set(frame.columns) != set(COLUMNS):
            raise files.error(PARQUET, f"has other columns than Adult's: {', '.join(map(str, frame.columns))[:80]}")
        if self.verify:
            check_count(f"{files.where(PARQUET)}: lines", len(frame), sum(LINES.values()), self.cure)
        whole = self._frame(files, PARQUET, frame.assign(line=range(1, len(frame) + 1)))
        num_test = len(whole) * LINES["adult.test"] // sum(LINES.values())
        train, test = whole[num_test:], whole[:num_test]
        if self.verify:
            for part, positives in zip((train, test), POSITIVES.values(), strict=True):
                check_count(f"{files.where(PARQUET)}: positives", int(part["income"].sum()), positives, self.cure)
        return train, test

    def _frame(self, files: RawFiles, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Numbers as numbers and words as ids; every value must be a published one."""
        import pandas as pd

        if frame.empty:
            raise files.error(name, "has no lines of data")
        for field in NUMBERS:
            column = pd.to_numeric(frame[field], errors="coerce")
            self._refuse(files, name, frame, column.isna(), field)
            frame[field] = column
        for field, words in {**WORDS, "income": INCOMES}.items():
            column = pd.Series(pd.Index(words).get_indexer(pd.Index(frame[field].astype(object))), index=frame.index)
            self._refuse(files, name, frame, column < 0, field)
            frame[field] = column
        return frame

    def _refuse(self, files: RawFiles, name: str, frame: pd.DataFrame, wrong: pd.Series, field: str) -> None:
        if wrong.any():
            row = frame.loc[wrong.idxmax()]
            raise files.error(name, f"line {row['line']} has {field}={str(row[field])[:40]!r}, which is not Adult's")


def _arrays(
    frame: pd.DataFrame, mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    numbers = (frame[list(NUMBERS)].to_numpy(np.float64) - mean) / deviation
    inputs = np.concatenate([numbers, frame[list(WORDS)].to_numpy(np.float64)], axis=1)
    return inputs.astype(np.float32), frame["income"].to_numpy(np.float32)
