#!/usr/bin/env python3
"""The `gpt2` of predict_ddp.py with random tokens, trained by the loops of other libraries, to be recorded as they are:

    torchrun --nproc_per_node=2 -m gradsync record --rounds=10 tests/pytorch/trainers.py trainer|accelerate|lightning|fabric

Needs transformers, and accelerate or lightning. All use AdamW; Trainer and Accelerate accumulate two passes, and all but Fabric
clip gradients."""
import os
import pathlib
import sys
import tempfile

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import predict_ddp


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, i):
        ids = torch.randint(8192, (64,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


def model():
    return predict_ddp.make("gpt2", 0)[0]


def adamw(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-4)


def loader():
    return torch.utils.data.DataLoader(Tokens(), batch_size=2)


def trainer():
    with tempfile.TemporaryDirectory() as directory:
        arguments = transformers.TrainingArguments(
            directory, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=10000, use_cpu=True, report_to=[],
            save_strategy="no", disable_tqdm=True, ddp_backend="gloo")
        transformers.Trainer(model(), arguments, train_dataset=Tokens()).train()


def accelerate():
    from accelerate import Accelerator
    accelerator, net = Accelerator(cpu=True, gradient_accumulation_steps=2), model()
    net, optimizer, batches = accelerator.prepare(net, adamw(net), loader())
    for batch in batches:
        with accelerator.accumulate(net):
            accelerator.backward(net(**batch).loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def lightning():
    from lightning import LightningModule, Trainer

    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model()

        def training_step(self, batch):
            return self.net(**batch).loss

        def configure_optimizers(self):
            return adamw(self)

    Trainer(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp", max_steps=10000, gradient_clip_val=1.0,
            logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(Net(), loader())


def fabric():
    from lightning.fabric import Fabric
    fabric, net = Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp"), model()
    fabric.launch()
    net, optimizer = fabric.setup(net, adamw(net))
    for batch in fabric.setup_dataloaders(loader()):
        optimizer.zero_grad()
        fabric.backward(net(**batch).loss)
        optimizer.step()


if __name__ == "__main__":
    {own.__name__: own for own in (trainer, accelerate, lightning, fabric)}[sys.argv[1]]()
