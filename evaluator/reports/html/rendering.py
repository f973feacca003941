"""Templates into HTML. Everything that was recorded is hostile: all of it is escaped."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.compiler import CodeGenerator
from markupsafe import Markup, escape

from spangrade.evaluator.reports.html.links import Links, element_id
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.file_modes import cache_folder

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

FOLDER = Path(__file__).parent

# What HTML cannot hold, or would act on the text around it: controls but for tabs and ends of lines,
# embeddings and overrides of the direction, half a surrogate pair, code points that are not characters.
_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_has_marks = re.compile("[&<>'\"]").search
UNKNOWN = "–"
_LONGEST_AGE_S = 30 * 86_400
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))
LONGEST = 20_000  # characters: more are shown as recorded

_SIGNS = re.compile(r"[*_`~|#>]|^\s*([-+]|\d+[.)])\s", re.MULTILINE)
_PLAIN = re.compile(r"</?(?:p|br)>")
_HEADINGS = re.compile(r"(</?)h[1-6]>")
_ELEMENTS = frozenset(
    "p br strong em s code pre ul ol li blockquote hr h4 table thead tbody tr th td".split()  # noqa: SIM905
)


class _Generator(CodeGenerator):
    """Writes `html` alone around a value, where Jinja writes `escape`, which makes a `Markup`, too."""

    def _output_child_pre(self, *_: Any) -> None:
        self.write("environment.finalize(")

    def _output_child_post(self, *_: Any) -> None:
        self.write(")")


class _Environment(jinja2.Environment):
    code_generator_class = _Generator


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates in a folder; one that cannot be written there is compiled again."""

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    """Return the compiled templates in the user's cache folder; None if that is not the user's alone.

    Compiling takes 0.3 s of each process that writes a report. How templates are compiled is a part of the
    folder's name.
    """
    how = blake2b(Path(__file__).read_bytes() + jinja2.__version__.encode(), digest_size=8).hexdigest()
    try:
        folder = cache_folder() / f"templates-{how}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, InputError):
        return None
    is_own = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
    return _Compiled(str(folder)) if is_own else None


_folders = [str(FOLDER / "templates")]


def add_templates(folder: Path) -> None:
    """Add the templates of pages that stand on these, in a folder of their own."""
    if str(folder) not in _folders:
        _folders.append(str(folder))


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates."""
    loader = jinja2.FileSystemLoader(())
    loader.searchpath = _folders  # what is added later is found, too
    made = _Environment(
        loader=loader,
        autoescape=True,
        auto_reload=False,
        bytecode_cache=_compiled(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=html,
    )
    made.filters |= {
        "age": age,
        "ago": ago,
        "count": count,
        "element_id": element_id,
        "markdown": markdown,
        "percent": percent,
        "seconds": seconds,
        "brief": brief,
        "change": change,
        "time": time,
        "unit": unit,
        "usd": usd,
        "value": value,
    }
    return made


def shown(value: Any) -> Any:
    """Return a value with U+FFFD for what a page cannot show."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return _NOT_SHOWN.sub(_REPLACEMENT, value)
    return value


def html(value: Any) -> str:
    """Return a value as HTML: escaped, with U+FFFD for what a page cannot show."""
    if isinstance(value, Markup):
        return value
    text = shown(str(value))
    return escape(text) if _has_marks(text) else text


def render(template: str, values: Mapping[str, Any], links: Links) -> str:
    """Return a template as HTML. What a page cannot show, such as a control character, becomes U+FFFD.

    `prefix`, empty unless given, begins the ids of elements: a file of several sessions has one for each.
    `scope`, empty unless given, are the filters of the header.
    """
    return environment().get_template(template).render({"prefix": "", "scope": {}, **values, "links": links})


def markdown(text: str) -> Markup | None:
    """Return a text that is written in Markdown as HTML; None for any other. See `prose`."""
    html = prose(_NOT_SHOWN.sub(_REPLACEMENT, text))
    return None if html is None else Markup(html)  # noqa: S704 (sanitised)


def time(value: datetime | int | None) -> str:
    """Return a time in UTC, to the second; an integer is in nanoseconds since 1970."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        try:
            value = datetime.fromtimestamp(value // 1_000_000_000, UTC)
        except (OverflowError, ValueError, OSError):
            return f"{value} ns"
    return value.strftime("%Y-%m-%d %H:%M:%S")


def ago(value: datetime | int | None) -> Markup | str:
    """Return how long ago a time was, with the time itself in its title, as a `time` that page.js renews."""
    seconds = _seconds_since(value)
    if value is None or seconds is None:
        return time(value)
    exact = time(value)
    return Markup('<time datetime="{}Z" title="{} UTC" data-ago="{}">{}</time>').format(
        exact.replace(" ", "T"), exact, seconds, age(value)
    )


def age(value: datetime | int | None) -> str:
    """Return how long ago a time was, as `3 h ago`; from 30 days on, and of the future, the time in UTC."""
    seconds = _seconds_since(value)
    if seconds is None:
        return time(value)
    if not 0 <= seconds < _LONGEST_AGE_S:
        return time(value)[:16]
    size, unit = next((one for one in _AGES if seconds >= one[0]), (1, "s"))
    return f"{seconds // size} {unit} ago"


def _seconds_since(value: datetime | int | None) -> int | None:
    """Return the seconds since a time, None for none that can be shown."""
    if value is None or time(value).endswith(" ns"):
        return None
    ns = value if isinstance(value, int) else int(value.replace(tzinfo=UTC).timestamp()) * 10**9
    return (time_ns() - ns) // 10**9


def seconds(value: float | None) -> str:
    """Return a duration."""
    if value is None:
        return UNKNOWN
    if value and abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.1f} s" if value < 1000 else f"{value:,.0f} s"


def usd(value: float | None) -> str:
    """Return a price."""
    if value is None:
        return UNKNOWN
    if value >= 1 or not value:
        return f"${value:,.2f}"
    short = f"{value:.4g}"
    return f"${f'{value:.12f}'.rstrip('0') if 'e' in short else short}"


def count(value: float | None) -> str:
    """Return a number, with thousands separated and at most four significant digits of a fraction."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value % 1 == 0 else f"{value:,.4g}"


def value(number: float | None, unit: str) -> str:
    """Return a number in the unit "count", "percent", "seconds" or "usd"."""
    return {"count": count, "percent": percent, "seconds": seconds, "usd": usd}[unit](number)


def brief(number: float, unit: str) -> str:
    """Return a number as `value` does, in few characters: three significant digits, a whole percent."""
    if unit == "percent":
        return f"{number:.0%}" if number in (0, 1) or 0.01 <= abs(number) <= 0.99 else f"{number:.3%}"
    return value(float(f"{number:.3g}"), unit)


def change(number: float, unit: str) -> str:
    """Return a difference with its sign, as `brief` does; that of two shares is in points."""
    sign = "+" if number > 0 else "−"
    return (
        f"{sign}{abs(number) * 100:.3g} points" if unit == "percent" else f"{sign}{brief(abs(number), unit)}"
    )


def unit(name: str) -> str:
    """Return the unit for `value` of a metric that is measured in `name`."""
    return {"share": "percent", "USD": "usd", "seconds": "seconds"}.get(name, "count")


def percent(value: float | None) -> str:
    """Return a share, from 0 to 1, in percent."""
    return UNKNOWN if value is None else f"{value:.1%}"


def prose(text: str) -> str | None:
    """Return a text that is written in Markdown as HTML.

    None for a text without formatting, for a long one, and if nh3 and markdown-it-py, which the extra `view`
    brings, are not installed.
    """
    if len(text) > LONGEST or not _SIGNS.search(text):
        return None
    parser = _parser()
    if parser is None:
        return None
    import nh3

    html = _HEADINGS.sub(r"\1h4>", parser.render(text))
    if "<" not in _PLAIN.sub("", html):
        return None
    return nh3.clean(html, tags=set(_ELEMENTS), attributes={}, link_rel=None)


@cache
def _parser() -> MarkdownIt | None:
    try:
        import nh3  # noqa: F401 (needed by `prose`)
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        return None
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    made.enable(["table", "strikethrough"])
    return made.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
