"""What PyTorch is given to be at its best. Skipped where the interpreter has no PyTorch."""

import sys
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    sys.exit(print(f"skipped: {error}"))

from pytorch_models import RmsNorm, make_model, random_batch
from pytorch_training import Case

CONFIG = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2, "vocab_size": 20000, "seq_len": 8,
          "batch_size": 1, "dtype": "f32", "optimizer": "adamw", "learning_rate": 1e-3}
LM_HEAD_BYTES = 4 * 64 * 20000  # ready first, and larger than the small first bucket


def case_of(**bucket_bytes):
    device = torch.device("cpu")
    torch.manual_seed(0)
    return Case({**CONFIG, "bucket_bytes": bucket_bytes}, device, lambda: make_model(CONFIG, device))


def sizes(facts):
    return [int(size) for size in facts["bucket_sizes"].split(", ")]


class PyTorchTest(unittest.TestCase):
    def test_buckets_are_final_before_the_first_step(self):
        case, batch = case_of(ddp=25 << 20, ddp_view=4096), random_batch(CONFIG, torch.Generator())
        before = [p.detach().clone() for p in case.params]
        facts = case.warm_up(batch)
        # The default has a small first bucket; a size that was asked for has not.
        self.assertEqual(sizes(facts["ddp"])[0], LM_HEAD_BYTES)
        self.assertEqual(len(sizes(facts["ddp"])), 2)
        self.assertGreater(len(sizes(facts["ddp_view"])), 4)
        for p, value in zip(case.params, before):
            self.assertTrue(torch.equal(p, value), "weights have changed")
            self.assertIsNone(p.grad)
        for name in ("ddp", "ddp_view", "ddp"):
            case.step(name, batch)
            self.assertEqual(case.variants[name].buckets(), facts[name])

    def test_every_strategy_leaves_the_same_gradients(self):
        names = ("none", "naive", "flat", "overlap", "ddp", "ddp_view")
        case, batch = case_of(**dict.fromkeys(names, 25 << 20)), random_batch(CONFIG, torch.Generator())
        weights = [p.detach().clone() for p in case.params]
        expected = None
        for name in names:
            for p, value in zip(case.params, weights):
                p.data.copy_(value)
            case.step(name, batch)
            grads = [p.grad.clone() for p in case.variants[name].model.parameters()]
            expected = expected or grads
            for grad, other in zip(grads, expected):
                torch.testing.assert_close(grad, other)

    def test_rms_norm_is_what_it_says(self):
        x, norm = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)), RmsNorm(64)
        torch.testing.assert_close(norm(x), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


if __name__ == "__main__":
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.set_num_threads(1)
    unittest.main()
