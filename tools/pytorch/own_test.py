"""What gradsync's own strategies average, judged as PyTorch's gradients are. Two ranks."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from run_ranks import launch, torch

import torch.distributed as dist

from gradsync import mistakes, ranks, reference

EXACT = (
    "naive",
    "flat",
    "overlap",
    "bucketed_sync",
    "bucketed_async",
    "core",
    "core_update",
    "zero1",
    "zero2",
    "zero3",
    "owned",
)
TEXT = b"gradients!"  # of two windows of nine bytes, a sequence of eight and the byte after it


def program():
    """The path of gradsync's own ddp: where Bazel runs tests, or else where it builds."""
    built = pathlib.Path(__file__).absolute().parents[2] / "bazel-bin/bench/ddp"
    return next((path for path in (pathlib.Path("bench/ddp"), built) if path.is_file()), None)


def dump(strategy, world_size, text):
    """What a first step leaves in the parameters' gradients, and its loss, by name."""
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "text").write_bytes(text)
        subprocess.run(
            [
                program(),
                f"--strategies={strategy}",
                f"--world_size={world_size}",
                f"--corpus={directory}/text",
                f"--dump_grads={directory}/grads",
                f"--out={directory}/out",
                "--seq_len=8",
                "--batch_size=1",
                "--d_model=16",
                "--d_ff=32",
                "--num_layers=2",
                "--num_heads=2",
                "--vocab_size=256",
                "--warmup_steps=0",
                "--steps=1",
                "--seed=0",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
        data = pathlib.Path(directory, "grads").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(
            bytearray(data[begin:][slice(*one["data_offsets"])]),
            dtype={"F32": torch.float32, "F64": torch.float64}[one["dtype"]],
        ).view(one["shape"])
        for name, one in header.items()
    }


class OwnTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if program() is None and "TEST_SRCDIR" not in os.environ:
            raise unittest.SkipTest("needs ./bazelw build //bench:ddp")
        cls.local = [dump("naive", 1, window) for window in (TEXT[:-1], TEXT[1:])]

    def check(self, gradients, text=None):
        """All are the mean if there is no text; else what is said of each matches this pattern."""
        local = self.local

        def run(rank):
            dist.init_process_group("gloo")
            all_ranks = ranks.Ranks(dist.group.WORLD)
            for name in sorted(set(local[rank]) - {"loss"}):
                p = torch.nn.Parameter(torch.empty_like(gradients[name]))
                held = reference.Gradients(p)
                held.add(local[rank][name])
                one = reference.Comparison(p, gradients[name], held, all_ranks)
                said = ""
                if not one.is_right():
                    said = one.narrow or mistakes.explain(one, 0, [], 1, all_ranks).text
                assert re.search(text, said) if text else not said, (name, one.share, said)

        with tempfile.TemporaryDirectory() as directory:
            status, printed = launch(run, 2, f"{directory}/printed")
        self.assertEqual(status, 0, printed)

    def test_exact_strategies_leave_the_mean(self):
        loss = [float(one["loss"]) for one in self.local]
        self.assertNotEqual(*loss)
        for strategy in EXACT:
            with self.subTest(strategy):
                gradients = dump(strategy, 2, TEXT)
                self.assertAlmostEqual(
                    float(gradients["loss"]), sum(loss) / 2, delta=1e-6
                )  # with this seed each rank has one of the windows
                self.check(gradients)

    def test_what_is_wrong_is_named(self):
        pairs = {name: [one[name] for one in self.local] for name in self.local[0]}
        self.check(
            {name: a + b for name, (a, b) in pairs.items()},
            "2 times the mean: summed and not averaged: the number of ranks, 2",
        )
        self.check(
            {name: 0.3 * a + 0.1 * b for name, (a, b) in pairs.items()},
            "scaled before the sum, by 0.2 to 0.6, as if each rank clipped",
        )
        for first, second, more in (
            (0.3, -0.1, 0),
            (1.5, 0.1, 0),
            (0.3, 0.1, 0.05),
        ):  # which clipping cannot have made
            self.check(
                {name: first * a + second * b + more * a.abs() for name, (a, b) in pairs.items()},
                r"^off by [\d.]+ of its norm$",
            )
        self.check(
            {name: (a + b) / 2 * (1 + 2**-20) for name, (a, b) in pairs.items()}, "no known mistake"
        )

    def test_bf16_on_the_wire_is_rounding(self):
        self.check(dump("bf16_wire", 2, TEXT), "bfloat16")


if __name__ == "__main__":
    unittest.main()
