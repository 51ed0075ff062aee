"""Make the table that training starts from, out of its source model. Needs model2vec with its distillation extra.

The table in the package is that one after contrastive training (docs/search-quality.md has the recipe).

python src/cortext/embedding/build.py --model FOLDER [--out FOLDER]     FOLDER holds all-MiniLM-L6-v2
python src/cortext/embedding/build.py --check                           are the files those that were measured?
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
DIMENSIONS = 256
# A table that is built anew may differ in its last bits: measure it (bench/quality.py), then pin it here, and give
# the model another name in index/search/models.py, so that every index is embedded anew.
PINNED = {
    "scale.f32.npy": "e4260555f4ffed5c9708c2a8dca7344f982a78e3e4cbe52d2516be4cfe68b080",
    "table.int8.npy": "76a1589972ae04858e61296b987862fe7039abae6f3cc162de960ad1bfa98722",
    "vocab.txt": "399d36a41bde8934411fbcd2988772b441b474ae2a9707b1578b7fc156766ea1",
}


def changed() -> list[str]:
    """The files that are not those that were measured."""
    found = []
    for name, pinned in PINNED.items():
        with open(os.path.join(HERE, name), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != pinned:
                found.append(name)
    return found


def build(model: str, out: str) -> None:
    """Distil the model, quantise its table, write the three files."""
    import numpy as np
    from model2vec.distill import distill  # type: ignore[import-not-found,unused-ignore]

    static: Any = distill(model, pca_dims=DIMENSIONS)
    table = np.asarray(static.embedding, dtype=np.float32)
    weights = getattr(static, "weights", None)
    if weights is not None:
        table = table * np.asarray(weights, dtype=np.float32)[:, None]
    pieces = sorted(static.tokenizer.get_vocab().items(), key=lambda pair: int(pair[1]))
    scale = (np.abs(table).max(axis=1) / 127.0).astype(np.float32)
    scale[scale == 0] = 1.0
    np.save(os.path.join(out, "table.int8.npy"), np.round(table / scale[:, None]).astype(np.int8))
    np.save(os.path.join(out, "scale.f32.npy"), scale)
    with open(os.path.join(out, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(piece for piece, _ in pieces))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--out", default=os.curdir)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.check:
        build(options.model, options.out)
        return 0
    different = changed()
    sys.stdout.write(f"not as measured: {', '.join(different)}\n" if different else "as measured\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
