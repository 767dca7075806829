"""Lists of names and regular expressions, each of which matches whole names.

Others may have written them: who may write a group's topics or read its REST can bring expressions that would keep
`re` busy for hours. So each list is bounded in what it takes, and `regex` is used, which takes a limit of time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from replicator.errors import ConfigError

if TYPE_CHECKING:
    import regex

__all__ = ["NamePatterns", "is_name", "name_patterns"]

#: A name as it is; no expression is needed to compare it.
_NAME: Final = re.compile(r"[%a-zA-Z0-9_-]+")
_EVERY_NAME: Final = frozenset({".*", ".+"})
#: Expressions in a list, characters of one, and characters that it would have with its counted repeats written out,
#: as it is when it is compiled.
_MOST: Final = 1_000
_MOST_CHARACTERS: Final = 10_000
_MOST_WRITTEN_OUT: Final = 100_000
#: What `_written_out` tells apart: an escaped character, a class, the ends of a group, a count.
_PARTS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|[()]|\{(\d*)(,?)(\d*)\}|.", re.DOTALL)
#: Seconds of CPU for one match, and for all matches of a list, of which this is forgotten each second.
_ONE_MATCH: Final = 0.1
_ALL_MATCHES: Final = 1.0
_FORGOTTEN: Final = 0.1
#: Seconds that do not count: usual matches take microseconds, those of long alternations tenths of a millisecond.
_USUAL: Final = 0.001


def is_name(text: str) -> bool:
    """Whether `text` matches itself only."""
    return _NAME.fullmatch(text) is not None


class NamePatterns:
    """What `name_patterns` makes of `texts`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._every = not _EVERY_NAME.isdisjoint(texts)
        self._names = frozenset(filter(is_name, texts))
        others = self._names | _EVERY_NAME
        expressions = [text for text in dict.fromkeys(texts) if text not in others]
        if len(expressions) > _MOST:
            raise ValueError(f"{len(expressions):,} regular expressions, and at most {_MOST:,} are possible")
        self._expressions = [_compiled(text) for text in expressions]
        self._spent = 0.0
        self._at = time.monotonic()

    def match(self, name: str) -> bool:
        """Whether one of them matches all of `name`.

        Raises:
            ConfigError: that takes too long.
        """
        if self._every or name in self._names:
            return True
        return any(self._matches(expression, name) for expression in self._expressions)

    def _matches(self, expression: regex.Pattern[str], name: str) -> bool:
        if self._spent > _ALL_MATCHES:
            self._forget()
        if self._spent > _ALL_MATCHES:
            raise _slow(expression, name)
        began = time.thread_time()
        try:
            return expression.fullmatch(name, timeout=_ONE_MATCH) is not None
        except TimeoutError:
            raise _slow(expression, name) from None
        finally:
            took = time.thread_time() - began
            if took > _USUAL:
                self._forget()
                self._spent += took

    def _forget(self) -> None:
        at = time.monotonic()
        self._spent = max(0.0, self._spent - (at - self._at) * _FORGOTTEN)
        self._at = at


@lru_cache(maxsize=1024)
def name_patterns(texts: tuple[str, ...]) -> NamePatterns:
    """The same for all who use these texts.

    Raises:
        ValueError: one is an invalid regular expression, or too large a one; says which, and what is wrong with it.
    """
    return NamePatterns(texts)


def _slow(expression: regex.Pattern[str], name: str) -> ConfigError:
    return ConfigError(
        f"the regular expression {expression.pattern!r} takes too long to match names such as {name!r}",
        hint="write one without repeats of repeats, such as (a+)+",
    )


def _compiled(text: str) -> regex.Pattern[str]:
    if len(text) > _MOST_CHARACTERS:
        raise _invalid(text, f"it has {len(text):,} characters, and at most {_MOST_CHARACTERS:,} are possible")
    if _written_out(text) > _MOST_WRITTEN_OUT:
        raise _invalid(text, f"its counted repeats are more than {_MOST_WRITTEN_OUT:,} characters when written out")
    import regex  # noqa: PLC0415 - it takes a while, and most lists have names only

    try:
        return regex.compile(text)
    except regex.error as error:
        raise _invalid(text, str(error)) from None
    except RecursionError:
        raise _invalid(text, "it is nested too deep") from None


def _invalid(text: str, reason: str) -> ValueError:
    shown = text if len(text) <= 100 else f"{text[:100]}…"
    return ValueError(f"{shown!r} is an invalid regular expression ({reason})")


def _written_out(text: str) -> int:
    """Characters of an expression with its counted repeats written out, those of groups within groups, too."""
    groups, last = [0], 0
    for part in _PARTS.finditer(text):
        if part[0] == "(":
            groups.append(0)
        elif part[0] == ")" and len(groups) > 1:
            last = groups.pop() + 1
            groups[-1] += last
        elif part[0].startswith("{") and part[0] != "{":
            times = max((int(digits[:9]) for digits in (part[1], part[3]) if digits), default=1)
            groups[-1] += last * (max(times, 1) - 1)
        else:
            last = 1
            groups[-1] += last
    return sum(groups)
