"""XML without entities, external or expanding: the one door to defusedxml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.errors import DocumentUnparsable

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def parsed(content: bytes, media_type: str) -> Element:
    """The root element. Raises DocumentUnparsable: not well formed, or it declares entities."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root: Element = fromstring(content, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except DefusedXmlException as error:
        raise DocumentUnparsable(
            media_type=media_type, reason="its XML declares entities, which are a known way to exhaust readers"
        ) from error
    except (ParseError, ValueError, LookupError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"its XML is damaged ({' '.join(str(error).split())[:120]})") from error
    return root
