"""What tensors a step keeps alive beside weights, gradients and the optimizer's state: activations, and what is computed from them.

The step must not synchronise. Storages are counted from the operation that makes or takes them until they are freed."""

import sys
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

UNKNOWN = {
    "weight_bytes": 0,
    "buffer_bytes": 0,
    "state_bytes": 0,
    "keeps_gradients": False,
    "forward_bytes": 0,
    "order": [],
    "ready_bytes": [],
    "held_bytes": [],
    "optimizer_bytes": 0,
}


def storage_of(tensor):
    tensor = getattr(tensor, "_local_tensor", tensor)  # a DTensor's own part
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def bytes_of(tensors):
    """Of all of their storages, each once."""
    own = {s._cdata: s.nbytes() for s in map(storage_of, tensors) if s is not None}
    return sum(own.values())


def is_compiled():
    """Whether anything is: operations of compiled code are not seen."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(
        dynamo and (dynamo.counters["stats"]["unique_graphs"] or dynamo.counters["frames"]["ok"])
    )


class Live(TorchDispatchMode):
    """From start() to end(). `apart`: tensors that are counted apart, such as weights."""

    def __init__(self, apart):
        super().__init__()
        self.bytes, self.now, self.most, self.is_on, self.watched = (
            {},
            0,
            0,
            False,
            [],
        )  # by storage
        self.apart = set()
        for tensor in apart:
            self.leave_out(tensor)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, result)):
            if isinstance(tensor, torch.Tensor):
                self._see(storage_of(tensor))
        return result

    def _see(self, storage):
        key = None if storage is None else storage._cdata
        if key is None or key in self.bytes or key in self.apart or storage.device.type == "meta":
            return
        self.bytes[key] = storage.nbytes()
        self.now += self.bytes[key]
        self.most = max(self.most, self.now)
        self.watched.append(weakref.finalize(storage, self._forget, key))

    def _forget(self, key):
        self.now -= self.bytes.pop(key, 0)
        self.apart.discard(key)

    def leave_out(self, tensor):
        """From now on it is counted apart."""
        storage = storage_of(tensor)
        if storage is None:
            return
        if storage._cdata not in self.bytes:
            self.watched.append(weakref.finalize(storage, self._forget, storage._cdata))
        self.apart.add(storage._cdata)
        self.now -= self.bytes.pop(storage._cdata, 0)

    def take(self):
        """The most since the last call, or the start."""
        most, self.most = self.most, self.now
        return most

    def start(self):
        if not self.is_on:
            self.__enter__()
            self.is_on = True

    def end(self):
        if self.is_on:
            self.is_on = False
            self.__exit__(None, None, None)
            for one in self.watched:
                one.detach()


class Memory:
    """Of the step that begins now; `result` is what the file says of it. A gradient is part of what is computed until it is
    ready. `apart`: tensors of the recorder's own."""

    def __init__(self, params, module, optimizers, apart):
        self.params = params
        states = [
            t
            for optimizer in optimizers
            for t in tree_leaves(dict(optimizer.state))
            if isinstance(t, torch.Tensor)
        ]
        gradients = [p.grad for p in params if p.grad is not None]
        weights, buffers = [*module.parameters()], [*module.buffers()]
        self.live = Live([*weights, *params, *buffers, *states, *gradients, *apart])
        self.result = UNKNOWN | {
            "weight_bytes": bytes_of(weights),
            "buffer_bytes": bytes_of(buffers),
            "state_bytes": bytes_of(states),
            "keeps_gradients": bool(gradients),
            "ready_bytes": [0] * len(params),
            "held_bytes": [0] * len(params),
        }
        self.live.start()

    def on_backward(self):
        self.result |= {
            "forward_bytes": max(self.result["forward_bytes"], self.live.take()),
            "order": [],
        }

    def on_ready(self, i):
        self.live.leave_out(self.params[i].grad)
        self.result["ready_bytes"][i] = max(self.result["ready_bytes"][i], self.live.take())
        self.result["held_bytes"][i] = self.live.now
        self.result["order"].append(i)

    def on_update(self):
        """After backward, and what the recorder itself does then."""
        self.live.take()

    def end(self):
        if self.live.is_on:
            self.live.end()
            self.result["optimizer_bytes"] = self.live.take()
