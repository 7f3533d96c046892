"""Launches of record and check, and one answer, as a user types them.

It takes a minute, so that it can run under every PyTorch that is supported.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import run_ranks

HERE = pathlib.Path(run_ranks.__file__).absolute().parent
SCRIPT = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(torch.distributed.get_rank())
for step in range(1000):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    for parameter in model.parameters():
        parameter.grad *= SCALE
    optimizer.step()
"""


class SmokeTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def run_gradsync(self, *arguments, ranks=0):
        """Runs the command by torchrun with so many ranks, or by Python alone."""
        launcher = [
            *("-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--rdzv_backend=c10d"),
            *("--rdzv_endpoint=localhost:0", "--local_addr=localhost"),
        ]
        return subprocess.run(
            [sys.executable, *(launcher if ranks else ()), "-m", "gradsync", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=150,
        )

    def script(self, scale):
        path = self.directory / "train.py"
        path.write_text(SCRIPT.replace("SCALE", str(scale)))
        return path

    def test_a_script_is_recorded_and_predicted(self):
        out = self.directory / "out.jsonl"
        recorded = self.run_gradsync(
            "record", f"--out={out}", "--rounds=2", self.script(1), ranks=2
        )
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertIn("A step without synchronisation takes ", recorded.stdout)
        answered = self.run_gradsync("what_if", out, "--link=25Gbit,5us", "--world_size=8")
        self.assertEqual((answered.returncode, answered.stderr), (0, ""))
        self.assertIn("4 parameters, 0.01872 MB of gradients, SGD; 2 ranks", answered.stdout)
        self.assertIn("Asked for 8 ranks", answered.stdout)

    def test_a_script_is_checked(self):
        checked = self.run_gradsync("check", self.script(1), ranks=2)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("gradsync: same ", checked.stdout + checked.stderr)
        checked = self.run_gradsync("check", self.script(2), ranks=2)
        self.assertEqual(checked.returncode, 1, checked.stderr)
        self.assertIn("gradsync: differs ", checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
