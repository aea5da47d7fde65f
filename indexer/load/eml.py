"""Mail (EML): who wrote to whom about what, the message, and each attachment that a loader reads as a section of its own.

The plain text of a message is preferred to its HTML. What an attachment is, its own bytes and name decide; one that cannot be read is a
fault, not the end of the mail. Mails inside mails are read to a fixed depth.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

from indexer.load.archives import check_archive
from indexer.load.compose import Composer
from indexer.load.decode import decode
from indexer.load.html import load_html
from store.errors import DocumentUnparsable, Rejected
from store.model import LoadedText

DEPTH_MAX = 3
PARTS_MAX = 200
UNPACKED_BYTES_MAX = 128 << 20
"""Of one attachment that is a ZIP-based document."""
_HEADERS = ("From", "To", "Cc", "Date")
_HEADER_LINE = re.compile(rb"[!-9;-~]{1,100}:", re.ASCII)


def load_eml(content: bytes, media_type: str) -> LoadedText:
    """The title is the subject; `from`, `to`, `date` and `attachments` are metadata. Raises DocumentUnparsable: no mail."""
    start = content.lstrip()
    if start.startswith(b"From "):
        start = start.partition(b"\n")[2]
    if not _HEADER_LINE.match(start):
        raise DocumentUnparsable(media_type=media_type, reason="it does not begin with the header of a mail")
    message = email.message_from_bytes(start, policy=email.policy.default)
    out = Composer(media_type)
    subject = _header(message, "Subject")
    attachments = _read_message(message, out, 1, DEPTH_MAX)
    own: dict[str, Any] = {
        "from": _header(message, "From"),
        "to": _header(message, "To"),
        "date": _date(message),
        "attachments": attachments or None,
    }
    return out.loaded(subject, own=own)


def _read_message(message: EmailMessage, out: Composer, level: int, depth: int) -> list[str]:
    """Writes a mail; returns the names of its attachments."""
    out.heading(level, _header(message, "Subject") or "(no subject)")
    for header in _HEADERS:
        if value := _header(message, header):
            out.line(f"{header}: {value}")
    attachments: list[tuple[str, EmailMessage]] = []
    bodies = 0
    for number, part in enumerate(_parts(message)):
        if number >= PARTS_MAX:
            out.fault("mail_cut", f"The mail has more than {PARTS_MAX} parts; the rest is left out.")
            break
        name = part.get_filename()
        kind = part.get_content_type()
        is_body = not name and part.get_content_disposition() != "attachment" and kind in ("text/plain", "text/html")
        if is_body:
            bodies += 1
            _read_body(part, out, level)
        elif kind == "message/rfc822" or name:
            attachments.append((" ".join((name or "message.eml").split()), part))
    if not bodies:
        out.fault("mail_without_text", "The mail has no message in text or HTML.")
    for name, part in attachments:
        _read_attachment(name, part, out, level, depth)
    return [name for name, _ in attachments]


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """The leaves; of alternatives the plain text, else the HTML, else the last. An attached mail is a leaf."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        yield message
        return
    parts = [part for part in message.get_payload() if isinstance(part, EmailMessage)]
    if message.get_content_type() == "multipart/alternative":
        by_kind = {part.get_content_type(): part for part in reversed(parts)}
        chosen = by_kind.get("text/plain") or by_kind.get("text/html") or (parts[-1] if parts else None)
        if chosen is not None and not (
            chosen.get_content_type() == "text/plain" and not _payload(chosen).strip() and "text/html" in by_kind
        ):
            parts = [chosen]
        else:
            parts = [by_kind["text/html"]] if "text/html" in by_kind else parts[-1:]
    for part in parts:
        yield from _parts(part)


def _read_body(part: EmailMessage, out: Composer, level: int) -> None:
    content = _payload(part)
    try:
        if part.get_content_type() == "text/html":
            out.append(load_html(content, "text/html"), level)
        else:
            text, _ = decode(content, "text/plain", part.get_content_charset())
            out.paragraph(text)
    except Rejected as error:
        out.fault("mail_part_unread", f"A part of the mail could not be read: {error.message}")


def _read_attachment(name: str, part: EmailMessage, out: Composer, level: int, depth: int) -> None:
    from indexer.load.registry import load

    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        message = inner[0] if isinstance(inner, list) and inner else None
        if isinstance(message, EmailMessage) and depth > 1:
            _read_message(message, out, min(level + 1, 6), depth - 1)
        else:
            out.fault("attachment_unread", f"The attached mail {name[:80]!r} is nested too deeply.")
        return
    try:
        if depth <= 1 and name.lower().endswith(".eml"):
            raise DocumentUnparsable(media_type="message/rfc822", reason="it is nested too deeply")
        content = _payload(part)
        check_archive(content, "the attachment", UNPACKED_BYTES_MAX)
        loaded = load(name, content)
    except Rejected as error:
        out.fault("attachment_unread", f"The attachment {name[:80]!r} was not read: {error.message}")
        return
    if loaded.text.strip():
        out.heading(level + 1, name)
        out.append(loaded, level + 1)


def _payload(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _header(message: EmailMessage, name: str) -> str | None:
    """A header's text; a malformed one is read as far as it goes."""
    try:
        value = message.get(name)
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):
        value = next((raw for key, raw in message.raw_items() if key.lower() == name.lower()), None)
    return " ".join(str(value).split()) or None if value is not None else None


def _date(message: EmailMessage) -> str | None:
    try:
        return parsedate_to_datetime(_header(message, "Date") or "").isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
