"""The file of published steps, and its typed lines: a JSON object each.

A line of kind "scaling" has steps of one model on 1 and more GPUs:

  source, gpu, model, setting  where it was published, and of what; setting may be missing
  first               what the step of 1 GPU is: "plain", or "ddp", DistributedDataParallel of one
                      rank
  gradient_bytes      of all gradients
  tensors             how many gradients there are; may be missing
  step_ms             by the number of GPUs
  bus_gb_s            bus bandwidth of an all-reduce, by the number of GPUs, as nccl-tests define it
  is_bus_assumed      whether the source does not tell the bandwidth; if it is missing, it does
  ddp_of_one_ms       a step of DistributedDataParallel of one rank, if "first" is plain; may be
                      missing
  step_sd_ms          the standard deviation of the step of 1 GPU, from step to step; may be missing
  clock_mhz           of the slowest GPU, by the number of GPUs; may be missing
  wanted              for which numbers of GPUs the step is predicted

A line of kind "passes" has steps of several passes, whose gradients are synchronised after the last
one or after each: `one_ms`, what a synchronisation costs elsewhere, `once_ms` and `each_ms`.

A line of kind "memory" has what a rank's tensors needed at the peak of a step, `peak_mib`, by the
way of training, "ddp" or "fsdp", between so many `ranks`, and a `recording` of such a model, beside
the file.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from gradsync.link import Operation
from gradsync.network import sent_part

MIB = 1 << 20
WAYS = ("ddp", "fsdp")  # whose memory is predicted


class BadLine(ValueError):
    """A line that cannot be used, in one line that names it."""


@dataclass(frozen=True)
class Scaling:
    """Steps of one model on 1 and more GPUs, in seconds and bytes; the fields of the file."""

    source: str
    gpu: str
    model: str
    setting: str
    first: str
    gradient_bytes: float
    tensors: int | None
    step_s: Mapping[int, float]
    bus_bytes_s: Mapping[int, float]
    is_bus_assumed: bool
    ddp_of_one_s: float | None
    step_sd_s: float
    clock_mhz: Mapping[int, float]
    wanted: Sequence[int]

    @property
    def machine(self) -> tuple[str, str]:
        return self.source, self.gpu

    @property
    def name(self) -> str:
        return f"{self.gpu}, {self.model} {self.setting}".rstrip()

    def cost_s(self, gpus: int) -> float:
        """Returns what the published step takes more than with 1 GPU."""
        return self.step_s[gpus] - self.step_s[1]

    def ring_s(self, gpus: int, size: float) -> float:
        """Returns what an all-reduce of so many bytes takes."""
        return sent_part(Operation.ALL_REDUCE, gpus) * size / self.bus_bytes_s[gpus]


@dataclass(frozen=True)
class Passes:
    """Steps of several passes, synchronised once or in each, in seconds."""

    source: str
    gpu: str
    model: str
    setting: str
    passes: int
    one_s: float
    once_s: float
    each_s: float


@dataclass(frozen=True)
class Memory:
    """Peaks of a rank's memory, in bytes, by the way of training."""

    source: str
    gpu: str
    model: str
    setting: str
    ranks: int
    recording: str
    peak_bytes: Mapping[str, float]


Line = Union[Scaling, Passes, Memory]


def read(path: str) -> list[Line]:
    """Returns the lines of a file. Raises BadLine."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [_line_of(path, number, text) for number, text in enumerate(lines, 1) if text.strip()]


def _line_of(path: str, number: int, text: str) -> Line:
    try:
        fields = json.loads(text)
        folder = pathlib.Path(path).parent
        kinds: Mapping[str, Callable[[Mapping[str, Any]], Line]] = {
            "scaling": _scaling_of,
            "passes": _passes_of,
            "memory": lambda memory: _memory_of(memory, folder),
        }
        return kinds[fields["kind"]](fields)
    except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadLine(f"{path}, line {number}: {reason}") from None


def _scaling_of(fields: Mapping[str, Any]) -> Scaling:
    line = Scaling(
        source=_text(fields, "source"),
        gpu=_text(fields, "gpu"),
        model=_text(fields, "model"),
        setting=_text({"setting": "", **fields}, "setting"),
        first=_text(fields, "first"),
        gradient_bytes=_number(fields["gradient_bytes"]),
        tensors=round(_number(fields["tensors"])) if "tensors" in fields else None,
        step_s=_by_gpus(fields["step_ms"], 1e-3),
        bus_bytes_s=_by_gpus(fields["bus_gb_s"], 1e9),
        is_bus_assumed=bool(fields.get("is_bus_assumed", False)),
        ddp_of_one_s=1e-3 * _number(fields["ddp_of_one_ms"]) if "ddp_of_one_ms" in fields else None,
        step_sd_s=1e-3 * _number(fields["step_sd_ms"]) if "step_sd_ms" in fields else 0,
        clock_mhz=_by_gpus(fields.get("clock_mhz", {}), 1),
        wanted=[round(_number(gpus)) for gpus in fields["wanted"]],
    )
    if line.first not in ("plain", "ddp"):
        raise ValueError(f"first is {line.first}, expected plain or ddp")
    for gpus in line.wanted:
        if gpus < 2 or not {1, gpus} <= set(line.step_s) or gpus not in line.bus_bytes_s:
            raise ValueError(f"wanted has {gpus}: expected 2 or more, in step_ms and bus_gb_s")
    return line


def _passes_of(fields: Mapping[str, Any]) -> Passes:
    return Passes(
        source=_text(fields, "source"),
        gpu=_text(fields, "gpu"),
        model=_text(fields, "model"),
        setting=_text(fields, "setting"),
        passes=round(_number(fields["passes"])),
        one_s=1e-3 * _number(fields["one_ms"]),
        once_s=1e-3 * _number(fields["once_ms"]),
        each_s=1e-3 * _number(fields["each_ms"]),
    )


def _memory_of(fields: Mapping[str, Any], folder: pathlib.Path) -> Memory:
    peaks = fields["peak_mib"]
    if not isinstance(peaks, dict) or not set(peaks) <= set(WAYS):
        raise TypeError(f"peak_mib is {peaks}, expected an object by {' and '.join(WAYS)}")
    return Memory(
        source=_text(fields, "source"),
        gpu=_text(fields, "gpu"),
        model=_text(fields, "model"),
        setting=_text(fields, "setting"),
        ranks=round(_number(fields["ranks"])),
        recording=str(folder / _text(fields, "recording")),
        peak_bytes={way: MIB * _number(value) for way, value in peaks.items()},
    )


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value}, expected a text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e18:
        raise TypeError(f"{value} is no number above 0")
    return float(value)


def _by_gpus(values: object, unit: float) -> dict[int, float]:
    if not isinstance(values, dict):
        raise TypeError(f"{values} is no object by numbers of GPUs")
    return {int(gpus): unit * _number(value) for gpus, value in values.items()}
