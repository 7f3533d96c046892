"""The mean of all ranks' gradients, in f64 and by collectives of its own, and which mistake made what differs from it.

The bound is Higham's (Accuracy and Stability of Numerical Algorithms, 4.2): n roundings change a sum by at most n u / (1 - n u) of
the sum of magnitudes, whatever the order of the additions. u is half of a dtype's eps."""

import copy
import ctypes
import hashlib

import torch
import torch.distributed as dist

from gradsync.settings import flat_of


def exact(tensor):
    """A copy in f64 on the CPU, of the whole tensor if ranks have parts of it. A complex number is two."""
    return flat_of(
        (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()
    ).to("cpu", torch.float64, copy=True)


def total(tensor, group):
    """The sum over ranks, in place. No group: of one rank."""
    if group is not None:
        dist.all_reduce(tensor, group=group)
    return tensor


def digest(tensor):
    """Of this rank's part of a sharded tensor, or of the tensor."""
    data = (
        (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().cpu().contiguous()
    )
    content = (ctypes.c_char * data.nbytes).from_address(data.data_ptr()) if data.nbytes else b""
    return (
        f"{data.dtype} {tuple(data.shape)} {hashlib.blake2b(content, digest_size=16).hexdigest()}"
    )


def bound_of(magnitude, dtypes, roundings):
    """How far so many roundings to the coarsest of these dtypes, and as many of f64, can bring a sum of this magnitude."""
    info = max(map(torch.finfo, dtypes), key=lambda one: one.eps)
    share = sum(roundings * u / (1 - roundings * u) for u in (info.eps / 2, 2.0**-53))
    return magnitude * share + roundings * info.tiny * info.eps


class Gradients:
    """A rank's gradients of one parameter since its last update, as autograd delivered them: their sum and that of magnitudes."""

    def __init__(self, like):
        self.sums, self.roundings, self.dtype = (
            torch.zeros(2, *flat_of(like).shape, dtype=torch.float64),
            0,
            flat_of(like).dtype,
        )

    def add(self, gradient, scale=1):
        """`scale`: of a GradScaler, which divides by it later: two roundings, of the factor and of the product."""
        gradient = exact(gradient) / scale
        self.sums += torch.stack([gradient, gradient.abs()])
        self.roundings += 1 + 2 * (scale != 1)


def mistake(factor, tolerance, world, passes):
    """The name of a factor, or an empty one."""
    both, which = (
        world * passes,
        f"the number of ranks, {world}" + f", or of passes, {passes}" * (passes == world),
    )
    return next(
        (
            text
            for known, text in (
                (world, f"summed and not averaged: {which}"),
                (1 / world, f"averaged twice: {which}"),
                (both, f"ranks times passes, {both}"),
                (passes, f"not divided by the number of passes, {passes}"),
                (1 / passes, f"divided by the number of passes, {passes}"),
                (1 / both, f"divided by ranks times passes, {both}"),
            )
            if known != 1 and abs(factor / known - 1) <= tolerance
        ),
        "",
    )


class Comparison:
    """A parameter's gradient, as an optimizer is handed it, beside the mean of all ranks'; all of `group` make it. By id(p): `held`, this rank's
    Gradients, and `full`, what stands for p.grad. `share`: of the bound; wrong unless <= 1. `narrow`: the dtype that explains it, or an empty name."""

    def __init__(self, p, held, group, full={}):
        self.group, self.world, self.rank = (
            (group, 1, 0)
            if group is None
            else (group, dist.get_world_size(group), dist.get_rank(group))
        )
        grad = full.get(id(p), p.grad)
        self.is_used, held, self.narrow = (
            grad is not None,
            held.get(id(p)) or Gradients(p if grad is None else grad),
            "",
        )
        self.handed, self.own, roundings = (
            exact(grad if self.is_used else torch.zeros_like(p)),
            held.sums[0],
            held.roundings + self.world,
        )
        self.mean, magnitude = total(held.sums.clone(), group) / self.world
        self.bound = bound_of(magnitude, {held.dtype, flat_of(p).dtype}, roundings)
        distance = abs(self.handed - self.mean)
        self.share = float((distance / self.bound).max()) if distance.numel() else 0.0
        if (
            not self.share <= 1
        ):  # what is handed, or the sum that it is a mean of, has none but the dtype's numbers
            self.narrow = next(
                (
                    str(dtype)
                    for dtype in (torch.bfloat16, torch.float16)
                    if (distance <= bound_of(magnitude, {dtype}, roundings)).all()
                    and any(
                        torch.equal(one.to(dtype).double(), one)
                        for one in (self.handed, self.handed * self.world)
                    )
                ),
                "",
            )

    def explain(self, rank, of_passes, passes):
        """Which factor of the mean rank `rank` is handed, if it is one, and words. `of_passes`: the mean of each pass."""
        handed, mean, most = (
            total(self.handed * (self.rank == rank), self.group),
            self.mean,
            self.bound.norm(),
        )
        norm = mean.norm().clamp(min=1e-300)
        factor = float((handed * mean).sum() / norm.square())
        if (handed - factor * mean).norm() <= max(1, abs(factor)) * most:
            return (
                factor,
                f"{factor:.6g} times the mean: {mistake(factor, float(most / norm), self.world, passes) or 'no known mistake'}",
            )
        off, text = (handed - mean).norm(), ""
        if off.isfinite():
            part = handed.flatten()[:4096, None]  # ranks exchange no more of their gradients
            ranks = (
                total(
                    torch.stack(
                        [
                            self.own.flatten()[: len(part)] * (r == self.rank)
                            for r in range(self.world)
                        ]
                    ),
                    self.group,
                ).T
                / self.world
            )
            scales = torch.linalg.lstsq(ranks, part).solution
            if (
                len(part) > self.world
                and 0 < scales.min() <= scales.max() < 1 + most / norm
                and (ranks @ scales - part).norm() <= most
            ):
                text = f": ranks' are scaled before the sum, by {scales.min():.3g} to {scales.max():.3g}, as if each rank clipped its own"
            elif (
                len(of_passes) > 1 and handed.dim() > 1
            ):  # the polar factor is what Muon's products approximate
                factors = [
                    u @ v
                    for u, _, v in (
                        torch.linalg.svd(one.flatten(1), full_matrices=False)
                        for one in (mean, *of_passes)
                    )
                ]
                once, each = (
                    torch.cosine_similarity(handed.flatten(), one.flatten(), 0)
                    for one in (factors[0], sum(factors[1:]))
                )
                text = (
                    ": the sum of each pass's orthogonal factor, as if Muon's products ran per pass"
                    * bool(each > max(0.95, once))
                )
        return None, f"off by {off / norm:.3g} of its norm{text}"


def fed(optimizer, compared, alone):
    """What copies of this optimizer, without its attributes, make of the means if `alone`, a group of this rank, is the default one: of each
    parameter its weights, and how far roundings can bring their norm, as gradients at their bounds show, up and down by drawn signs."""
    every, ways = dist.distributed_c10d._world, []
    world, every.default_pg = every.default_pg, alone
    for way in (0, 1, -1):
        twin, draw = copy.deepcopy(optimizer), torch.Generator().manual_seed(0)
        params = [p for group in twin.param_groups for p in group["params"]]
        for p, one in [
            (p, one) for p, one in zip(params, compared) if one.is_used or one.mean.any()
        ]:
            p.grad = (
                one.mean
                + way * (torch.randint(2, one.mean.shape, generator=draw) * 2.0 - 1) * one.bound
            ).to(p.device, p.dtype)
        twin.step()
        ways.append([exact(p) for p in params])
    every.default_pg = world
    return [
        (
            middle,
            (up - middle).norm()
            + (down - middle).norm()
            + torch.finfo(p.dtype).eps * middle.norm(),
        )
        for p, middle, up, down in zip(params, *ways)
    ]
