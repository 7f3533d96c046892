"""What PyTorch is given to be at its best."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import torch
import torch.distributed as dist

from pytorch_ddp import libraries
from pytorch_models import make_model, random_batch, rms_norm
from pytorch_training import LOCAL_STEPS, Case, whole

CONFIG = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2, "vocab_size": 20000, "seq_len": 8,
          "batch_size": 1, "dtype": "f32", "optimizer": "adamw", "learning_rate": 1e-3}
RESNET = {"image_size": 32, "width": 8, "batch_size": 2, "dtype": "f32", "optimizer": "sgd", "learning_rate": 1e-2}
LM_HEAD_BYTES = 4 * 64 * 20000  # ready first, and larger than the small first bucket


def case_of(config=CONFIG, **bucket_bytes):
    device = torch.device("cpu")
    torch.manual_seed(0)
    return Case({**config, "bucket_bytes": bucket_bytes}, device, lambda: make_model(config, device))


def trained(name, steps, config=CONFIG):
    """A case that has taken so many steps with one strategy, each rank on a batch of its own."""
    case = case_of(config, **{name: 1 << 20})
    batch = random_batch(config, torch.Generator().manual_seed(dist.get_rank()))
    case.warm_up(batch)
    for _ in range(steps):
        case.step(name, batch)
    return case


def all_reduces_of(name):
    """Of one step: whether each is asynchronous."""
    with unittest.mock.patch.object(dist, "all_reduce", wraps=dist.all_reduce) as all_reduce:
        trained(name, 1)
    return [call.kwargs.get("async_op", False) for call in all_reduce.call_args_list]


def same_on_both_ranks(params):
    """By parameter, whether the two ranks have the same."""
    sums = [(p.detach() * (1 - 2 * dist.get_rank())).contiguous() for p in params]
    for s in sums:
        dist.all_reduce(s)
    return [not s.any() for s in sums]


def check_on_two_ranks(rank, path):
    """Raises unless strategies whose state is spread over ranks do what they should."""
    join(rank, 2, dist.FileStore(path, 2))
    for config in (CONFIG, RESNET):
        ddp, zero = trained("ddp", 3, config), trained("zero1", 3, config)
        assert all(torch.equal(*pair) for pair in zip(ddp.params, zero.params)), "zero1 trains other weights than ddp"
        own = sum(s.numel() for state in zero.variants["zero1"].optimizer.optim.state.values() for s in state.values())
        assert own < 1.2 * sum(p.numel() for p in zero.params), "zero1 holds the state of other ranks"
    for optimizer in ("adamw", "sgd"):
        config = {**CONFIG, "optimizer": optimizer}
        ddp, sharded = trained("ddp", 3, config), trained("fully_shard", 3, config)
        for p, q in zip(ddp.values, sharded.values):
            torch.testing.assert_close(q, p)
        kept = sum(p.to_local().numel() for p in sharded.variants["fully_shard"].params)
        assert kept < 0.6 * sum(p.numel() for p in ddp.params), "fully_shard keeps whole weights"
    # It averages after the first step, and then after each LOCAL_STEPS.
    assert all(same_on_both_ranks(trained("post_local_sgd", 1 + LOCAL_STEPS).params)), "not averaged"
    assert not all(same_on_both_ranks(trained("post_local_sgd", LOCAL_STEPS).params)), "averaged too early"
    for name in ("naive", "flat", "overlap"):
        for p, q in zip(trained("ddp", 1).variants["ddp"].params, trained(name, 1).variants[name].params):
            torch.testing.assert_close(q.grad, p.grad)
    # They differ in how they send, and not in what they compute.
    num_gradients = len(case_of().params)
    assert all_reduces_of("naive") == num_gradients * [False], "naive"
    assert all_reduces_of("flat") == [False], "flat"
    assert all_reduces_of("overlap") == num_gradients * [True], "overlap"
    exact, rounded = (list(trained(name, 1).variants[name].params) for name in ("ddp", "bf16_hook"))
    for p, q in zip(exact, rounded):
        assert torch.equal(q.grad, q.grad.bfloat16().float()), "gradients were not sent as bf16"
        torch.testing.assert_close(q.grad, p.grad, rtol=2**-6, atol=2**-6 * p.grad.abs().max().item())
    dist.destroy_process_group()


def join(rank, world_size, store):
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    torch.set_num_threads(1)


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
        for config in (CONFIG, RESNET):
            with self.subTest(config):
                self.check_gradients(config, ("none", "naive", "flat", "overlap", "ddp", "ddp_view", "zero1",
                                              "post_local_sgd"))
        self.check_gradients(CONFIG, ("none", "fully_shard"))

    def check_gradients(self, config, names):
        case, batch = case_of(config, **dict.fromkeys(names, 25 << 20)), random_batch(config, torch.Generator())
        weights = [p.detach().clone() for p in case.params]
        expected = None
        for name in names:
            for p, value in zip(case.params, weights):
                p.data.copy_(value)
            case.step(name, batch)
            grads = [whole(p.grad).clone() for p in case.variants[name].model.parameters()]
            expected = expected or grads
            for grad, other in zip(grads, expected):
                torch.testing.assert_close(grad, other)

    def test_averaging_leaves_all_variants_one_copy_of_the_weights(self):
        case = case_of(CONFIG, **dict.fromkeys(("ddp_view", "post_local_sgd"), 25 << 20))
        batch = random_batch(CONFIG, torch.Generator())
        for _ in range(1 + LOCAL_STEPS):
            case.step("post_local_sgd", batch)
        for shared, own in zip(case.params, case.variants["ddp_view"].params):
            self.assertEqual(own.data_ptr(), shared.data_ptr())

    def test_zero1_updates_the_weights_of_all_variants(self):
        case = case_of(CONFIG, **dict.fromkeys(("zero1", "zero1:4096", "ddp"), 25 << 20))
        batch = random_batch(CONFIG, torch.Generator())
        for name, other in (("zero1", "zero1:4096"), ("zero1:4096", "zero1")):
            before = [value.clone() for value in case.values]
            case.step(name, batch)
            for p, value, old in zip(case.variants[name].params, case.values, before):
                self.assertTrue(torch.equal(p, value))
                self.assertFalse(torch.equal(value, old))
            case.step(other, batch)

    def test_zero1_has_weights_in_buckets(self):
        case = case_of(CONFIG, zero1=25 << 20)
        self.assertTrue(case.variants["zero1"].optimizer.parameters_as_bucket_view)
        begin = time.perf_counter_ns()
        step = case.step("zero1", random_batch(CONFIG, torch.Generator()))
        self.assertTrue(begin < step["begin_ns"] < time.perf_counter_ns())

    def test_muon_updates_matrices_and_adamw_the_rest(self):
        case = case_of({**CONFIG, "optimizer": "muon"}, ddp=25 << 20)
        before = {name: p.detach().clone() for name, p in case.model.named_parameters()}
        case.step("ddp", random_batch(CONFIG, torch.Generator()))
        for name, p in case.model.named_parameters():
            change = (before[name] * (1 - 1e-5) - p.detach()) / 1e-3
            if name.startswith("layers") and p.dim() == 2:
                largest = torch.linalg.matrix_norm(change, 2) / (0.2 * max(p.shape) ** 0.5)
                self.assertTrue(0.6 < largest < 1.3, f"{name}: {largest}")
            else:  # the first step of AdamW is the rate, where there is a gradient
                torch.testing.assert_close(change.abs().max(), torch.tensor(1.0), rtol=1e-2, atol=0)

    def test_blas_is_named(self):
        self.assertNotIn(libraries(torch.device("cpu"))["blas"], ("", "unknown"))

    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as directory:
            torch.multiprocessing.spawn(check_on_two_ranks, (os.path.join(directory, "store"),), nprocs=2)

    def test_old_versions_are_refused_in_a_line(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "torch.py"), "w") as module:
                module.write("__version__ = '2.3.1+cpu'")
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch_ddp.py")
            end = subprocess.run([sys.executable, script, "--check"], env={"PYTHONPATH": directory},
                                 capture_output=True, text=True)
        self.assertEqual(end.stderr, f"{sys.executable} has PyTorch 2.3.1+cpu, expected 2.4 or newer\n")
        self.assertEqual(end.returncode, 1)

    def test_channels_last(self):
        self.assertTrue(make_model(RESNET, "cpu").conv1.weight.is_contiguous(memory_format=torch.channels_last))

    def test_rms_norm_is_what_it_says(self):
        x, norm = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)), rms_norm(64)
        torch.testing.assert_close(norm(x), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


if __name__ == "__main__":
    join(0, 1, dist.HashStore())
    unittest.main()
