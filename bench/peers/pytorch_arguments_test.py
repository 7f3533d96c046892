"""What PyTorch is asked for, by modules in its place that write it down: no interpreter needs PyTorch for this."""

import contextlib
import sys
import types
import unittest

log = []  # what was called, in order


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


class Module:
    def __call__(self, *batch):
        return self.forward(*batch)


class Logged(Module):
    """Writes down how it is made."""

    def __init__(self, *args, **options):
        log.append((type(self).__name__, options))
        self.args, self.defaults = args, options

    def step(self):
        log.append("update")

    def forward(self, *batch):
        return self.args[0](*batch)


class AdamW(Logged):
    pass


class ZeroRedundancyOptimizer(Logged):
    pass


class DistributedDataParallel(Logged):
    def register_comm_hook(self, _, hook):
        log.append(("hook", hook))


def empty(*_, **__):
    return contextlib.nullcontext()


dist = module("torch.distributed", barrier=lambda: log.append("barrier"), broadcast=empty)
module("torch", distributed=dist, autocast=empty, bfloat16=None,
       nn=types.SimpleNamespace(Module=Module, parallel=types.SimpleNamespace(
           DistributedDataParallel=DistributedDataParallel)),
       optim=types.SimpleNamespace(AdamW=AdamW, SGD=AdamW),
       backends=types.SimpleNamespace(cudnn=types.SimpleNamespace(),
                                      cuda=types.SimpleNamespace(matmul=types.SimpleNamespace())))
hooks = "torch.distributed.algorithms.ddp_comm_hooks"
module(hooks, __path__=[])
module(hooks + ".default_hooks", bf16_compress_hook="bf16")
module("torch.distributed.algorithms", __path__=[])
module("torch.distributed.algorithms.model_averaging", __path__=[])
module("torch.distributed.algorithms.model_averaging.averagers", PeriodicModelAverager=Logged)
module("torch.distributed.optim", PostLocalSGDOptimizer=Logged, ZeroRedundancyOptimizer=ZeroRedundancyOptimizer)

from pytorch_training import DEFAULT_BUCKET_BYTES, Case  # noqa: E402: behind what it imports


class Value:
    def data_ptr(self):
        return id(self)


class Param:
    def __init__(self):
        self.data, self.grad = Value(), None

    def data_ptr(self):
        return self.data.data_ptr()

    def is_contiguous(self):
        return True


class Model(Module):
    def __init__(self):
        self.values = [Param()]

    def parameters(self):
        return self.values

    def buffers(self):
        return []

    def forward(self, *batch):
        log.append("forward")
        return types.SimpleNamespace(backward=lambda: log.append("backward"))


def case_of(*names, bucket_bytes=DEFAULT_BUCKET_BYTES):
    log.clear()
    config = {"dtype": "f32", "optimizer": "adamw", "learning_rate": 0.5,
              "bucket_bytes": dict.fromkeys(names, bucket_bytes)}
    return Case(config, types.SimpleNamespace(type="cpu"), Model)


class ArgumentsTest(unittest.TestCase):
    def test_optimizers_are_the_fused_ones(self):
        case_of("naive", "zero1")
        made = dict(entry for entry in log if entry[0] in ("AdamW", "ZeroRedundancyOptimizer"))
        self.assertEqual(len(made), 2)
        for options in made.values():
            self.assertIs(options["fused"], True)
            self.assertEqual(options["lr"], 0.5)

    def test_gradients_are_views_of_buckets_where_that_is_the_faster_way(self):
        for name, views in {"ddp": {}, "ddp_view": True, "zero1": True, "bf16_hook": True}.items():
            case_of(name)
            self.assertIn(("DistributedDataParallel", {"gradient_as_bucket_view": True} if views else {}), log)
        self.assertIn(("hook", "bf16"), log)
        # A size that was asked for is a size of the first bucket too.
        case_of("ddp", bucket_bytes=3 << 20)
        self.assertIn(("DistributedDataParallel", {"bucket_cap_mb": 3}), log)

    def test_an_unknown_strategy_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "^PyTorch has no strategy flatt, expected one of none, "):
            case_of("flatt:4096")

    def test_ranks_meet_before_the_first_step_of_a_period_alone(self):
        case = case_of("none", "ddp")
        for name in ("none", "ddp"):
            log.clear()
            case.steps(name, (), 3)
            self.assertEqual(log, ["barrier"] + 3 * ["forward", "backward", "update"])


if __name__ == "__main__":
    unittest.main()
