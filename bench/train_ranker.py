"""Train the ranker of search (`cortext/ranking/trees.npz`) on sets of conversations with questions."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from bench.common import at_home, parser_of, print_table, work_folder
from bench.quality import SHORT, TEST, TRAIN, Question, QuestionSet, ask, asks_for_session, read_set, store
from cortext.index.search import rank
from cortext.index.search.features import FALLING, NAMES, RISING, features
from cortext.wiring.stores import Stores

SEED = 2026
TREES = 100
PINNED = "0e7d1354b1741f93a5ad2682dcf308efac526f7117032744a713a2cc2f4865bb"
SETTINGS: dict[str, Any] = {
    "objective": "lambdarank", "lambdarank_truncation_level": 20, "learning_rate": 0.05, "num_leaves": 12,
    "max_depth": 4, "min_data_in_leaf": 60, "feature_fraction": 0.6, "bagging_fraction": 0.8, "bagging_freq": 1,
    "lambda_l2": 5.0,
    "monotone_constraints": [(name in RISING) - (name in FALLING) for name in NAMES],
    "seed": SEED, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbose": -1,
}  # fmt: skip
Rows = dict[str, NDArray[Any]]


def run_train_ranker() -> int:
    """Train the ranker of search (`cortext/ranking/trees.npz`) on sets of conversations with questions.

    python -m bench train_ranker collect FOLDER PATH… [--most 800]   ask the questions, keep every candidate's features
    python -m bench train_ranker train FOLDER [--out FILE]           train on the training parts, report on the tests
    python -m bench train_ranker check                               is the file the one that was measured?

    PATH is as in `bench quality`. Sets in LoCoMo's format are reported, never trained on. Needs lightgbm, only here:
    the trees are evaluated in numpy. The same data and seed give the same trees.
    """
    parser = parser_of(run_train_ranker)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("folder")
    collecting.add_argument("paths", nargs="+")
    collecting.add_argument("--most", type=int, default=800, help="questions of a set and part (default: 800)")
    collecting.add_argument(
        "--distilled", metavar="FOLDER", help="a table without training: for kinds it was trained on"
    )
    collecting.add_argument("--part", choices=(TRAIN, TEST), help="only this part (default: both)")
    training = commands.add_parser("train")
    training.add_argument("folder")
    training.add_argument("--out", default=rank.PATH)
    commands.add_parser("check")
    options = parser.parse_args()
    if options.command == "collect":
        parts = [options.part] if options.part else [TRAIN, TEST]
        with distilled(options.distilled) if options.distilled else nullcontext():
            for path in options.paths:
                collect(options.folder, read_set(path), options.most, parts)
    elif options.command == "train":
        train(options.folder, options.out)
    else:
        with open(rank.PATH, "rb") as file:
            same = hashlib.sha256(file.read()).hexdigest() == PINNED
        print("as measured" if same else "not as measured")
        return 0 if same else 1
    return 0


# ── collecting ───────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def distilled(folder: str) -> Iterator[None]:
    """Use another table inside the `with` block, with the constants that belong to a table without training.

    A table that was trained on the questions of a set makes meaning look better there than it is.
    """
    with (
        mock.patch("cortext.index.search.embed.DATA", folder),
        mock.patch.multiple("cortext.index.search.embed.StaticModel", near=0.1, far=0.25),
        mock.patch.multiple("cortext.index.search.fuse", MEANING=0.3, MEANING_POWER=1.5),
    ):
        yield


def collect(folder: str, questions: QuestionSet, most: int, parts: Sequence[str]) -> None:
    """Write a file per part and layout of a set: the features of every candidate, and whether it is an answer."""
    os.makedirs(folder, exist_ok=True)
    lengths = [len(said) for one in questions.conversations for said in one.sessions.values()]
    is_short = len(questions.conversations) > 1 and sum(lengths) / len(lengths) < SHORT and questions.is_trainable
    for part in parts if questions.is_trainable else (TEST,):
        layouts = [questions, questions.pooled(part)] if is_short else [questions]
        for layout in layouts:
            rows = _collected(layout, part, most)
            name = f"{layout.name} {part if questions.is_trainable else 'only measured'}"
            np.savez(os.path.join(folder, f"{name}.npz"), allow_pickle=False, **rows)
            print(f"{name}: {len(rows['sizes'])} questions, {len(rows['features'])} candidates", file=sys.stderr)


def _collected(questions: QuestionSet, part: str, most: int) -> Rows:
    chosen = [(one, question) for one in questions.conversations for question in one.questions if question.part == part]
    random.Random(SEED).shuffle(chosen)
    chosen = chosen[:most]
    wanted = {id(one) for one, _ in chosen}
    with work_folder() as base:
        home = os.path.join(base, "home")
        os.mkdir(home)
        with at_home(home):
            kept = [one for one in questions.conversations if id(one) in wanted]
            roots = {one.name: root for root, one in store(base, kept)}
            search = Stores(home).search()
            search.refresh(patient=True)
            found = []
            for one, question in chosen:
                with recorded() as candidates:
                    ask(search, question, roots[one.name], exact=False, deep=1)
                if candidates:
                    places, columns = candidates[0]
                    sessions = search._engine.sessions({key for key, _ in places})
                    named = [(sessions[key][1], seq) for key, seq in places]
                    found.append((columns, _labels(named, question), question))
    return {
        "features": np.concatenate([columns for columns, _, _ in found]),
        "labels": np.concatenate([labels for _, labels, _ in found]),
        "sizes": np.array([len(labels) for _, labels, _ in found]),
        "gold": np.array([1 if asks_for_session(question) else len(question.gold) for _, _, question in found]),
        "by_session": np.array([asks_for_session(question) for _, _, question in found]),
    }


def _labels(named: Sequence[tuple[str, int]], question: Question) -> NDArray[np.int8]:
    if asks_for_session(question):
        return np.array([(session, -1) in question.gold for session, _ in named], dtype=np.int8)
    return np.array([place in question.gold for place in named], dtype=np.int8)


class _Untrained:
    """Stands for the ranker while candidates are collected: their order is that of the fixed weights."""

    def scores(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows[:, 0]


@contextmanager
def recorded() -> Iterator[list[tuple[Sequence[tuple[int, int]], NDArray[np.float32]]]]:
    """Keep the places and features of the candidates that are ranked inside the `with` block."""
    kept: list[tuple[Sequence[tuple[int, int]], NDArray[np.float32]]] = []

    def recording(*given: Any) -> NDArray[np.float32]:
        made = features(*given)
        kept.append((given[1], made))
        return made

    with mock.patch.multiple("cortext.index.search.rank", features=recording, ranker=_Untrained):
        yield kept


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


def train(folder: str, out: str) -> None:
    """Train on all training parts, each kind with the same weight; write the trees and report on the test parts."""
    import lightgbm  # type: ignore[import-not-found,import-untyped,unused-ignore]

    parts = {name: rows for name, rows in _files(folder) if name.endswith(TRAIN)}
    columns, labels = (np.concatenate([rows[one] for rows in parts.values()]) for one in ("features", "labels"))
    sizes = np.concatenate([rows["sizes"] for rows in parts.values()])
    weights = np.concatenate([np.full(len(rows["labels"]), 1 / len(rows["sizes"])) for rows in parts.values()])
    data = lightgbm.Dataset(
        columns,
        labels,
        group=sizes,
        weight=weights / weights.mean(),
        init_score=rank.START * columns[:, 0],
        feature_name=list(NAMES),
        free_raw_data=False,
    )
    model = lightgbm.train(SETTINGS, data, num_boost_round=TREES)
    save(model.dump_model(), out)
    rank.ranker.cache_clear()
    made = rank.ranker(out)
    assert made is not None
    expected = rank.START * columns[:2000, 0] + model.predict(columns[:2000], raw_score=True)
    difference = float(np.abs(made.scores(columns[:2000]) - expected).max())
    print(f"the numpy evaluation differs from lightgbm's by at most {difference:.1e}", file=sys.stderr)
    rows = []
    for name, test in _files(folder):
        before, after = _figures(test, test["features"][:, 0]), _figures(test, made.scores(test["features"]))
        fused = _figures(test, test["features"][:, NAMES.index("fused")])
        ceiling = _figures(test, test["labels"])
        rows.append(
            (name, *(f"{a} → {b} → {c} ({d})" for a, b, c, d in zip(fused, before, after, ceiling, strict=True)))
        )
    print_table(("set", "first: fused → untrained → trees (ceiling)", "recall@5", "recall@10"), rows)
    with open(out, "rb") as file:
        print("sha256", hashlib.sha256(file.read()).hexdigest())


def _files(folder: str) -> Iterator[tuple[str, Rows]]:
    for name in sorted(os.listdir(folder)):
        if name.endswith(".npz"):
            with np.load(os.path.join(folder, name)) as file:
                yield name.removesuffix(".npz"), dict(file)


def _figures(rows: Rows, scores: NDArray[Any]) -> list[str]:
    """Return whether the first is right, and recall among the first 5 and 10, in percent."""
    found = []
    start = 0
    for size, gold, by_session in zip(rows["sizes"], rows["gold"], rows["by_session"], strict=True):
        best = rows["labels"][start : start + size][np.argsort(-scores[start : start + size], kind="stable")]
        found.append([min(int(best[:top].sum()), 1 if by_session else gold) / gold for top in (1, 5, 10)])
        found[-1][0] = float(best[0])
        start += size
    return [f"{100 * column:.1f}" for column in np.mean(found, axis=0)]


def save(dumped: dict[str, Any], path: str) -> None:
    """Write lightgbm's trees as arrays."""
    feature: list[int] = []
    threshold: list[float] = []
    children: list[list[int]] = []
    values: list[float] = []

    def add(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            values.append(node["leaf_value"])
            return -len(values)
        number = len(feature)
        feature.append(node["split_feature"])
        threshold.append(node["threshold"])
        children.append([0, 0])
        children[number] = [add(node["left_child"]), add(node["right_child"])]
        return number

    roots = [add(tree["tree_structure"]) for tree in dumped["tree_info"]]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.savez_compressed(
        path,
        names=np.array(NAMES),
        roots=np.array(roots, dtype=np.int32),
        feature=np.array(feature, dtype=np.int32),
        threshold=_rounded_down(np.array(threshold)),
        children=np.array(children, dtype=np.int32).reshape(-1, 2),
        values=np.array(values, dtype=np.float32),
    )


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 that is not above each value: features on either side of it stay there."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
