#!/usr/bin/env python3
"""Predicts PyTorch's DistributedDataParallel from steps that do not use it, and measures it: how far is it off?

    DIR/bin/python tests/pytorch/predict_ddp.py OUT [--fsdp | --blocks] [--minutes=15] [--launches=3] [--models=...]
        [--links=loopback,4gbit,1gbit]

Needs PyTorch, and torchvision for the last three models; others are torchvision's by their names, `gpt2` and `bert` of
transformers, `attentive` (recurrent with attention) and `unet` (convolutions with skips), and those of small_models.py, all with
random weights. Links need root (tools/dev/hosts.sh), and are tried with the first three models. Two ranks of one thread each. In
a launch gradsync.record records
`none` and probes, and in turn with them these rows take steps of their own: bucket_cap_mb of 1, 5, 25 and 100, no_sync over two
passes, bf16_compress_hook, ZeroRedundancyOptimizer, and DDP as it comes. OUT/MODEL.LINK.jsonl holds a line for each launch;
launches that are there are not repeated, and none begins after so many minutes. Then tools/dev/prediction_errors.py says how far
predictions are off.

--blocks: DDP is recorded as above, and in turn with it steps are fully_shard's by blocks, with and without reshard.
--fsdp: under fully_shard, whose units are the models' blocks, and of `bert` also each block's attention. It records `none`, one probe
and its own steps, and the same without resharding. What the first launch predicts is written to OUT/MODEL.LINK.predicted before the
second begins.
"""
import argparse
import copy
import dataclasses
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/pytorch"), str(ROOT / "tools/dev")]
import prediction_errors
import small_models

MODELS = ("lstm", "transformer", "vgg", "resnet50", "densenet121", "efficientnet_b0")


def make(name, rank):
    """A module, its input, and the loss of its output; weights are equal on all ranks, data differ."""
    import torch
    from torch import nn

    class Language(nn.Module):
        def __init__(self, vocab, width, body):
            super().__init__()
            self.embedding, self.body, self.head = nn.Embedding(vocab, width), body, nn.Linear(width, vocab)

        def forward(self, tokens):
            out = self.body(self.embedding(tokens))
            return self.head(out[0] if isinstance(out, tuple) else out).flatten(0, 1)

    class Attentive(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent, self.attention = nn.GRU(512, 512, 2, batch_first=True), nn.MultiheadAttention(512, 8, batch_first=True)

        def forward(self, x):
            hidden = self.recurrent(x)[0]
            return hidden + self.attention(hidden, hidden, hidden, need_weights=False)[0]

    class UNet(nn.Module):
        def __init__(self, widths=(3, 64, 128, 256)):
            super().__init__()
            self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(widths, widths[1:]))
            self.up = nn.ModuleList(nn.ConvTranspose2d((1 + (i < 2)) * widths[i + 1], widths[i] if i else 32, 2, 2)
                                    for i in range(3))
            self.head = nn.Linear(32, 10)

        def forward(self, x):
            held = []
            for layer in self.down:
                x = layer(x).relu()
                held.append(x)
            x = held.pop()
            for i in (2, 1, 0):
                x = self.up[i](x).relu()
                x = torch.cat([x, held.pop()], 1) if held else x
            return self.head(x.mean((2, 3)))

    torch.manual_seed(0)
    if name in ("gpt2", "bert"):
        import transformers
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=8192, n_positions=64, n_embd=384, n_layer=6, n_head=6)) if name == "gpt2" else (
            transformers.BertForMaskedLM(transformers.BertConfig(
                vocab_size=8192, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)))
        classes, shape = 8192, (2, 64)
    elif name in small_models.MODELS:
        small = small_models.MODELS[name]
        model, classes, shape = small.build(), small.classes, small.shape
    elif name == "attentive":
        model, classes, shape = Language(10000, 512, Attentive()), 10000, (2, 32)
    elif name == "unet":
        model, classes, shape = UNet(), 10, (4, 3, 64, 64)
    elif name == "transformer":
        layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0, batch_first=True, norm_first=True)
        model, classes, shape = Language(8192, 384, nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)), 8192, (2, 64)
    elif name == "lstm":
        model, classes, shape = Language(10000, 512, nn.LSTM(512, 512, 3, batch_first=True)), 10000, (2, 32)
    elif name == "vgg":
        layers, before = [], 3
        for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()] if width else [nn.MaxPool2d(2)]
            before = width or before
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 512), nn.ReLU(),
                              nn.Linear(512, 10))
        classes, shape = 10, (8, 3, 32, 32)
    else:
        import torchvision
        model, classes, shape = getattr(torchvision.models, name)(num_classes=100), 100, (2, 3, 96, 96)
    torch.manual_seed(1 + rank)
    data = torch.randint(classes, shape) if len(shape) == 2 else torch.randn(shape)
    targets = torch.randint(classes, (data.numel() if len(shape) == 2 else len(data),))

    def loss(out):
        return nn.functional.cross_entropy(out.logits.flatten(0, 1) if hasattr(out, "logits") else out, targets)

    return model, data, loss


def measure(name, out, rounds, fsdp, blocks):
    """One rank of a launch."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from gradsync.ddp_target import row_of
    from gradsync.recorder import Recorder
    from gradsync.schema import Step, StepMode
    from gradsync.torch_private import DDP
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model, data, loss = make(name, dist.get_rank())
    if fsdp:
        return measure_sharded(name, model, data, loss, out, rounds)

    def sgd(params):
        return torch.optim.SGD(params, lr=1e-4, momentum=0.9)

    def row(label, cap, optimizer=sgd, hook=None, passes=1, **more):
        ddp = DDP(copy.deepcopy(model), bucket_cap_mb=cap, gradient_as_bucket_view=True)
        if hook:
            ddp.register_comm_hook(None, hook)
        return label, ddp, optimizer(ddp.parameters()), passes, more

    def zero1(params):
        return ZeroRedundancyOptimizer(params, optimizer_class=torch.optim.SGD, lr=1e-4, momentum=0.9)

    if blocks:
        modules = [sharded("", copy.deepcopy(model), reshard_after_forward=reshards) for reshards in (True, False)]
        rows = [("fully_shard" + ", no reshard" * whole, module, sgd(module.parameters()), 1, {"fsdp": True, "whole": bool(whole)})
                for whole, module in enumerate(modules)]
    else:
        rows = [row(f"bucket_cap_mb={cap}", cap) for cap in (1, 5, 25, 100)]
        rows += [row("no_sync over 2 passes", 25, passes=2), row("bf16_compress_hook", 25, hook=bf16_compress_hook),
                 row("ZeroRedundancyOptimizer", 25, zero1, zero1=True)]
    ddp = DDP(model, gradient_as_bucket_view=True)
    optimizer, recorder = sgd(ddp.parameters()), Recorder(ddp, out, rounds)
    last = rounds * len(recorder.plan) - 1
    every = len(recorder.plan) / len(rows) / 3  # what is measured takes three turns for each of what predicts it
    taken = 0
    while not recorder.done:
        while taken * every <= recorder.taken:
            index = (taken + taken // len(rows)) % len(rows)
            _, module, row_optimizer, passes, _ = rows[index]
            row_optimizer.zero_grad(set_to_none=True)
            dist.barrier()
            begin = time.monotonic_ns()
            for i in range(passes):
                module.require_backward_grad_sync = i == passes - 1
                loss(module(data)).backward()
            row_optimizer.step()
            end = time.monotonic_ns()
            if taken >= 2 * len(rows):  # buckets are rebuilt in the second step
                recorder.steps.append(Step(StepMode.SCRIPT, row=index + 1, begin_ns=begin, step_ns=end - begin))
            taken += 1
        if recorder.taken == last:
            recorder.extra_rows = [row_of(ddp if blocks else m, label, passes=p, **more) for label, m, _, p, more in rows]
        optimizer.zero_grad(set_to_none=True)
        loss(ddp(data)).backward()
        optimizer.step()


def sharded(kind, model, **more):
    """Under FSDP2, by blocks."""
    from torch.distributed.fsdp import fully_shard
    from gradsync import sharding
    units = sharding.repeated_blocks([name for name, _ in model.named_parameters()])
    for unit in units[1:]:
        block = model.get_submodule(unit.name)
        if kind == "bert":
            fully_shard(block.attention, **more)
        fully_shard(block, **more)
    return fully_shard(model, **more)


def measure_sharded(name, model, data, loss, out, rounds):
    import torch
    import torch.distributed as dist
    from gradsync.recorder import Recorder
    from gradsync.schema import CollectiveKind, Step, StepMode
    from gradsync.turns import Turn
    models = [sharded(name, copy.deepcopy(model)), sharded(name, model, reshard_after_forward=False)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=1e-4, momentum=0.9) for one in models]

    def step(k):
        optimizers[k].zero_grad(set_to_none=True)
        loss(models[k](data)).backward()
        optimizers[k].step()

    recorder = Recorder(models[0], out, rounds)
    all_reduces = [turn for turn in recorder.plan if turn.probe and turn.probe.kind is CollectiveKind.ALL_REDUCE]
    whole = max(all_reduces, key=lambda turn: (turn.probe.piece_bytes, turn.probe.in_flight))
    alone = Turn(StepMode.UNSYNCHRONISED)
    recorder.plan = [alone, whole, alone, Turn(StepMode.SCRIPT)]
    taken, last = 0, rounds * len(recorder.plan) - 1
    while not recorder.done:
        while taken * len(recorder.plan) <= recorder.taken:  # one in each round
            dist.barrier()
            begin = time.monotonic_ns()
            step(1)
            end = time.monotonic_ns()
            if taken:
                recorder.steps.append(Step(StepMode.SCRIPT, row=1, begin_ns=begin, step_ns=end - begin))
            taken += 1
        if recorder.taken == last:
            own, = recorder.target.rows(passes=1)
            recorder.extra_rows = [dataclasses.replace(own, name="fully_shard, no reshard", whole=True)]
        step(0)


def launch(model, link, out, rounds, *kind):
    own = [sys.executable, str(pathlib.Path(__file__).resolve()), out, "--rank_of", model, "--rounds", str(rounds), *kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if link != "loopback":
        subprocess.run([ROOT / "tools/dev/hosts.sh", f"--rate={link}", "2", *own], check=True, env=environment, stderr=subprocess.DEVNULL)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [subprocess.Popen(own, env={**environment, "RANK": str(rank)}) for rank in range(2)]
    if any([rank.wait() for rank in ranks]):
        sys.exit(f"{model} over {link}: a rank failed")


def launches_in(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--links", default="loopback,4gbit,1gbit")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--blocks", action="store_true")
    parser.add_argument("--rank_of")
    flags = parser.parse_args()
    if flags.rank_of:
        sys.argv[:2] = ["tests/pytorch/predict_ddp.py", flags.out.name]  # as recordings say it, on every machine
        return measure(flags.rank_of, str(flags.out), flags.rounds, flags.fsdp, flags.blocks)
    models = (flags.models or ",".join(("gpt2", "resnet50", "bert") if flags.fsdp else MODELS)).split(",")
    links, end = flags.links.split(","), time.monotonic() + 60 * flags.minutes
    flags.out.mkdir(parents=True, exist_ok=True)
    files = {(model, link): flags.out / f"{model}.{link}.jsonl" for link in links
             for model in (models if link == "loopback" else models[:3])}
    for n in range(flags.launches):
        for (model, link), file in files.items():
            if launches_in(file) <= n and time.monotonic() < end:
                launch(model, link, str(file), flags.rounds, *["--fsdp"] * flags.fsdp, *["--blocks"] * flags.blocks)
                if flags.fsdp and n == 0:
                    predicted = prediction_errors.rows_of(str(file))
                    file.with_suffix(".predicted").write_text("".join("%s: %.4f to %.4f ms\n" % (
                        row.name, 1e3 * row.predicted_s.low, 1e3 * row.predicted_s.high) for row in predicted))
    prediction_errors.main(flags.out)


if __name__ == "__main__":
    main()
