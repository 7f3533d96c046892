"""Finds the losses of a script, and the factor by which backward() multiplies the mean of each
loss. Losses are results of cross_entropy, nll_loss or mse_loss, and tensors of one element that the
script passes to all_reduce() or reduce(). Losses that need no gradient are ignored."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, cast

import torch

from gradsync.events import in_backward, script_calls
from gradsync.losses import ROUNDINGS_OF_A_LOSS, PassLoss
from gradsync.reference import digest
from gradsync.torch_private import register_hook, tensors_of

LOSSES = ("cross_entropy", "nll_loss", "mse_loss")  # of torch.nn.functional
OF_CLASSES = LOSSES[:2]  # whose targets are classes, of which some may be ignored


@dataclasses.dataclass
class _Loss:
    """A loss that the script has computed. `values`: the elements of a loss with reduction="none";
    None for a mean or a sum."""

    tokens: int
    mean: float
    eps: float
    is_mean: bool
    is_reduced: bool = False
    values: torch.Tensor | None = None

    def of_pass(self, derivative: torch.Tensor, scale: float) -> PassLoss:
        """Returns the PassLoss of this loss for one backward pass. PassLoss.factor is the factor by
        which backward() multiplies the mean of the loss, such as 0.5 after (mean / 2).backward().
        For reduction="none", the factor is NaN if nonzero derivatives differ, or if all are 0.

        `derivative`: the gradient of this loss, with the loss's shape, that autograd computed in
        the backward pass. `scale`: the factor of a GradScaler, by which `derivative` is divided."""
        factor = float(derivative.double().sum()) / scale
        tokens, mean = self.tokens, self.mean
        if self.values is not None:
            counted = derivative != 0
            tokens = int(counted.sum())
            mean = float(self.values[counted].double().mean()) if tokens else 0.0
            is_uniform = tokens and bool((derivative[counted] == derivative[counted][0]).all())
            factor = factor if is_uniform else math.nan
        elif not self.is_mean:
            factor *= tokens
        return PassLoss(factor, tokens, mean, self.eps, is_reduced=self.is_reduced)


@dataclasses.dataclass
class Pass:
    """A backward pass of the script.

    `given`: the number on which the script called backward(); NaN if it was not a single number.
    `is_divided`: whether the script has divided the tensors given to backward() by a sum over ranks
    of magnitude above 1. `losses`: each loss (such as a result of cross_entropy) through which the
    pass has gone so far."""

    calls: str
    scale: float  # of a GradScaler
    given: float
    is_divided: bool
    losses: list[PassLoss] = dataclasses.field(default_factory=list)
    delivered_to: set[int] = dataclasses.field(default_factory=set)  # ids of parameters

    def loss(self) -> PassLoss | None:
        """Returns the loss in `losses` whose factor has the largest magnitude. Returns None if
        `losses` is empty, or if a factor is NaN. If `losses` has losses that the script reduced by
        a collective, only these losses count."""
        losses = [one for one in self.losses if one.is_reduced] or self.losses
        if not losses or any(math.isnan(one.factor) for one in losses):
            return None
        largest = max(losses, key=lambda one: abs(one.factor))
        off = abs(self.given / self.scale - largest.factor * largest.mean)
        return dataclasses.replace(
            largest,
            calls=self.calls,
            is_alone=len(losses) == 1,
            is_whole=off <= ROUNDINGS_OF_A_LOSS * largest.eps * abs(largest.factor * largest.mean),
        )


class LossWatch:
    """Finds, for each backward pass, the losses of the script whose derivatives the pass computes.
    `targets`: the list to which hashes of the losses' target tensors are appended."""

    def __init__(self, targets: list[str]) -> None:
        self._targets = targets
        self._pass: Pass | None = None

    def begin_pass(self, roots: Any, scale: float, is_divided: bool) -> Pass:
        """Returns a Pass for the backward pass that begins on the tensors `roots`. Each loss that
        autograd reaches before end_pass() is called adds a PassLoss to Pass.losses."""
        known = tensors_of(roots)
        is_number = len(known) == 1 and known[0].numel() == 1
        given = float(known[0].detach()) if is_number else math.nan
        self._pass = Pass(script_calls(), scale, given, is_divided)
        return self._pass

    def end_pass(self) -> None:
        self._pass = None

    def add(
        self, own: Callable[..., Any], loss: torch.Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        """Called when `own`, a loss function in LOSSES, has returned `loss` for `args` and
        `kwargs`. Does nothing if `loss` needs no gradient, or if size_average or reduce is given
        and not None. Otherwise each later backward pass through `loss` adds a PassLoss to
        Pass.losses."""
        given = inspect.signature(own).bind(*args, **kwargs).arguments
        is_deprecated = any(given.get(name) is not None for name in ("size_average", "reduce"))
        if not loss.requires_grad or is_deprecated:
            return
        target = given["target"]
        self._targets.append(digest(target))
        tokens = _tokens_of(own.__name__, given)
        reduction = given.get("reduction", "mean")
        values = loss.detach() if reduction == "none" else None
        mean = float(loss.detach().double().sum()) / (1 if reduction == "mean" else max(tokens, 1))
        eps = torch.finfo(loss.dtype).eps
        self._watch(loss, _Loss(tokens, mean, eps, reduction == "mean", values=values))

    def add_reduced(self, loss: torch.Tensor) -> None:
        """Called when the script is about to reduce `loss`, a tensor of one element that needs a
        gradient, by a collective. Each later backward pass through `loss` adds a PassLoss to
        Pass.losses."""
        eps = torch.finfo(loss.dtype).eps
        value = float(loss.detach().double().sum())
        self._watch(loss, _Loss(1, value, eps, is_mean=True, is_reduced=True))

    def _watch(self, loss: torch.Tensor, known: _Loss) -> None:
        def on_derivative(derivative: torch.Tensor) -> None:
            if self._pass is not None and in_backward():
                with torch.no_grad():
                    self._pass.losses.append(known.of_pass(derivative, self._pass.scale))

        register_hook(loss, on_derivative)


def _tokens_of(name: str, given: dict[str, Any]) -> int:
    """Returns the number of terms, such as tokens without ignored targets, whose mean or sum the
    loss is."""
    inputs, target = given["input"], given["target"]
    if name not in OF_CLASSES:
        return int(cast("Any", torch).broadcast_tensors(inputs, target)[0].numel())
    if target.is_floating_point():  # the probabilities of each class
        return int(target.numel() // target.shape[min(1, target.dim() - 1)])
    ignored = given.get("ignore_index", -100)  # PyTorch's default
    return int((target != ignored).sum())
