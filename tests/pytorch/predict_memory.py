#!/usr/bin/env python3
"""Peaks of memory, as a recording of one process predicts them, beside those of torch.distributed._tools' trackers.

    DIR/bin/python tests/pytorch/predict_memory.py [MODEL[:checkpoint]...]        # models of predict_ddp.py; a table in Markdown

With `:checkpoint` the activations of the model's blocks are computed again in backward.

MemTracker: one process, and DistributedDataParallel. FSDPMemTracker: fully_shard by blocks, as one of two ranks (torch's fake process
group). AdamW. Only live bytes of tensors are counted; buffers that gloo's reduce-scatter clones in C++ are not."""
import copy
import pathlib
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/pytorch"), str(ROOT / "tests/pytorch")]
warnings.filterwarnings("ignore")
import predict_ddp


def main(names):
    import torch
    import torch.distributed as dist
    from gradsync import memory, sharding
    from gradsync.recorder import Recorder
    from gradsync.recording import Recording
    from gradsync.torch_private import DDP
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as checkpoints
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.testing._internal.distributed.fake_pg import FakeStore
    print("| model | way | predicted (MB) | tracker (MB) | error (%) |\n|:--|:--|--:|--:|--:|")
    for name in names:
        model, data, loss = predict_ddp.make(name.removesuffix(":checkpoint"), 0)
        if name.endswith(":checkpoint"):
            blocks = sharding.repeated_blocks([name for name, _ in model.named_parameters()])[1:]
            blocks = [model.get_submodule(block.name) for block in blocks]
            checkpoints.apply_activation_checkpointing(model, check_fn=lambda module: any(module is block for block in blocks))

        def steps(one, optimizer, until):
            while until():
                loss(one(data)).backward()
                optimizer.step()
                optimizer.zero_grad()

        def times(count):
            left = iter(range(count))
            return lambda: next(left, None) is not None

        def peak(one, tracker=None):
            optimizer = torch.optim.AdamW(one.parameters(), lr=1e-4)
            steps(one, optimizer, times(1))
            loss(one(data)).backward()
            views = [p.grad for p in one.parameters()] if isinstance(one, DDP) else []
            optimizer.step()
            optimizer.zero_grad()
            tracked = FSDPMemTracker(one, optimizer) if tracker else MemTracker()
            tracked.track_inputs((data,)) if tracker else tracked.track_external(one, optimizer, data, *views)
            with tracked:
                steps(one, optimizer, times(1))
            found, = tracked.get_tracker_snapshot("peak").values()
            return found["Total"]

        with tempfile.TemporaryDirectory() as directory:
            one = copy.deepcopy(model)
            optimizer, recording = torch.optim.AdamW(one.parameters(), lr=1e-4), Recorder(one, f"{directory}/out", 2, views=True)
            steps(one, optimizer, lambda: not recording.done)
            recorded = Recording(f"{directory}/out")
        need, units = memory.Need(recorded), sharding.units_of(recorded.first)
        rows = [("one process", need.replicated(buckets=False), peak(copy.deepcopy(model)))]
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        rows.append(("DDP, views", need.replicated(), peak(DDP(copy.deepcopy(model), gradient_as_bucket_view=True))))
        dist.destroy_process_group()
        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        for way, how, more in (("fully_shard", sharding.Resharding.ALL, {}), ("fully_shard, no reshard", sharding.Resharding.NONE, {"reshard_after_forward": False})):
            one = predict_ddp.sharded("", copy.deepcopy(model), **more)
            rows.append((way, need.sharded(sharding.reshard(units, how), 2), peak(one, True)))
        dist.destroy_process_group()
        for way, predicted, tracked in rows:
            print("| %s | %s | %.2f | %.2f | %+.2f |" % (name, way, sum(predicted) / 1e6, tracked / 1e6,
                                                       100 * (sum(predicted) / tracked - 1)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["transformer", "lstm", "vgg", "gpt2", "bert", "resnet50", "densenet121", "efficientnet_b0"])
