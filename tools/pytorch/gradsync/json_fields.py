"""Reads the fields of a JSON object one by one. A field with a wrong type or value raises Refused,
with one line that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from gradsync import Refused

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class JsonObject:
    """The fields of one object of a JSON document.

    `place` says where the object is, such as "ranks[0][3].collectives", and is empty for the whole
    document. Each public method reads the value of the field `name`. All but optional() raise
    Refused if the value has the wrong type for the method. A missing field raises Refused, except
    in optional() and in calls with a `default` or is_optional=True. Methods with `least` and `most`
    raise Refused for a number below `least` or above `most`.

    At the end of a `with` statement, fields that were not read also raise Refused:

        with JsonObject(value, place) as fields:
            return Unit(name=fields.text("name"))
    """

    def __init__(self, value: object, place: str = "") -> None:
        if not isinstance(value, dict):
            _refuse(place, value, "an object")
        self._values: Mapping[str, object] = value
        self._place = place
        self._read: set[str] = set()

    def __enter__(self) -> JsonObject:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._refuse_unread()

    def text(self, name: str, default: str | None = None) -> str:
        if self._is_missing(name, default):
            return default or ""
        value = self._values[name]
        if not isinstance(value, str):
            _refuse(self._inside(name), value, "a text")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        if self._is_missing(name, default):
            return bool(default)
        value = self._values[name]
        if not isinstance(value, bool):
            _refuse(self._inside(name), value, "true or false")
        return value

    def integer(self, name: str, least: float, most: float, default: int | None = None) -> int:
        if self._is_missing(name, default):
            return default or 0
        return _integer(self._values[name], self._inside(name), least, most)

    def number(self, name: str, least: float, most: float, default: float | None = None) -> float:
        """Returns the number in the field `name`. If the field is missing, returns `default`;
        raises Refused if `default` is None. Also raises Refused unless the number is from `least`
        to `most`."""
        if self._is_missing(name, default):
            return default or 0
        return _number(self._values[name], self._inside(name), least, most)

    def choice(self, name: str, choices: type[E]) -> E:
        """Returns the member of the enumeration `choices` whose value is the text in the field
        `name`. Raises Refused if no member has this value."""
        text = self.text(name)
        try:
            return choices(text)
        except ValueError:
            expected = ", ".join(str(member.value) for member in choices)
            _refuse(self._inside(name), text, f"one of {expected}")

    def texts(self, name: str, is_optional: bool = False) -> tuple[str, ...]:
        return self.each(name, _text, is_optional)

    def integers(
        self, name: str, least: float, most: float, is_optional: bool = False
    ) -> tuple[int, ...]:
        return self.each(
            name, lambda value, place: _integer(value, place, least, most), is_optional
        )

    def numbers(
        self, name: str, least: float, most: float, is_optional: bool = False
    ) -> tuple[float, ...]:
        values = self._list(name, is_optional)
        return numbers_of(values, self._inside(name), least, most)

    def each(
        self, name: str, read: Callable[[object, str], T], is_optional: bool = False
    ) -> tuple[T, ...]:
        """Returns read(value, place) for each element `value` of the list in the field `name`.
        `place` is for error messages: it says where the element is, such as "ranks[3]". Returns ()
        if the field is missing and `is_optional` is True."""
        inside = self._inside(name)
        values = self._list(name, is_optional)
        return tuple(read(value, f"{inside}[{i}]") for i, value in enumerate(values))

    def optional(self, name: str, read: Callable[[object, str], T]) -> T | None:
        """Returns read(value, place) for the field `name`, where `place` says where the field is in
        the document. Returns None if the field is missing or its value is {}."""
        self._read.add(name)
        value = self._values.get(name)
        if name not in self._values or value == {}:
            return None
        return read(value, self._inside(name))

    def _refuse_unread(self) -> None:
        for name in self._values:
            if name not in self._read:
                expected = "fields that this version of gradsync writes"
                raise Refused(f"{self._inside(name)} is unknown, expected {expected}")

    def _is_missing(self, name: str, default: object) -> bool:
        self._read.add(name)
        if name in self._values:
            return False
        if default is None:
            raise Refused(f"no {self._inside(name)}")
        return True

    def _inside(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def _list(self, name: str, is_optional: bool) -> list[Any]:
        if self._is_missing(name, () if is_optional else None):
            return []
        return list_of(self._values[name], self._inside(name))


def list_of(value: object, place: str) -> list[Any]:
    """Returns `value` if it is a list; else raises Refused."""
    if not isinstance(value, list):
        _refuse(place, value, "a list")
    return value


def numbers_of(value: object, place: str, least: float, most: float) -> tuple[float, ...]:
    """Returns the numbers in the list `value`. Raises Refused if it is not a list of numbers from
    `least` to `most`."""
    values = list_of(value, place)
    # Nearly all of a recording is lists of times, so a list that is right is looked at as a whole.
    are_numbers = bool(values) and set(map(type, values)) <= {int, float}
    if are_numbers and least <= min(values) and max(values) <= most:
        return tuple(values)
    return tuple(_number(one, f"{place}[{i}]", least, most) for i, one in enumerate(values))


def _integer(value: object, place: str, least: float, most: float) -> int:
    if type(value) is not int or not least <= value <= most:
        _refuse(place, value, _range_text(least, most))
    return value


def _number(value: object, place: str, least: float, most: float) -> float:
    # True and False are integers to isinstance().
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(place, value, _range_text(least, most))
    if not least <= value <= most:
        _refuse(place, value, _range_text(least, most))
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        _refuse(place, value, "a text")
    return value


def _range_text(least: float, most: float) -> str:
    return f"{least:g} to {most:g}"


def _refuse(place: str, value: object, expected: str) -> NoReturn:
    raise Refused(f"{place or 'line'} is {json.dumps(value)[:40]}, expected {expected}")
