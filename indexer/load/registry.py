"""Which loader reads which document, by the extension of its uri. Importing this imports no format library.

`claims` runs for every file of every pass. PDF and office formats are not claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from store.errors import DocumentUnparsable
from store.model import LoadedText

_TEXT_TYPES = {
    "text/plain": "txt text me 1st nfo adoc asciidoc org tex textile pod man po pot",
    "text/x-rst": "rst rest",
    "text/x-log": "log out err",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv tab",
    "application/json": "json jsonl ndjson json5 jsonc geojson",
    "application/yaml": "yaml yml",
    "application/toml": "toml",
    "text/x-ini": "ini cfg conf properties",
    "application/xml": "xml xsd xsl xslt rss atom",
    "text/x-python": "py pyi pyx",
    "text/javascript": "js mjs cjs jsx ts tsx vue svelte",
    "text/x-c": "c h cc cpp cxx hh hpp hxx mm cu",
    "text/x-java": "java kt kts scala groovy gradle",
    "text/x-go": "go",
    "text/x-rust": "rs",
    "text/x-ruby": "rb erb rake",
    "text/x-php": "php",
    "text/x-shell": "sh bash zsh fish ps1 bat cmd",
    "text/x-sql": "sql",
    "text/css": "css scss sass less",
    "text/x-source": "cs fs vb swift dart lua pl pm r jl hs elm ex exs erl clj cljs lisp scm el ml mli nim zig v sv vhd asm s f f90 "
    "proto graphql gql thrift tf hcl nix cmake mk makefile dockerfile diff patch vim awk sed",
}
_MARKDOWN_TYPES = "md markdown mdown mkd mdx mdwn qmd rmd"
_HTML_TYPES = "html htm xhtml"
_NAMES = {
    "text/plain": "readme license licence copying notice authors contributors changelog changes news todo install history",
    "text/x-source": "makefile dockerfile containerfile jenkinsfile vagrantfile rakefile gemfile procfile justfile cmakelists.txt",
}
"""Documents known by their whole name, when it has no extension."""

_MEDIA_TYPES: Mapping[str, str] = MappingProxyType(
    {extension: media_type for media_type, extensions in _TEXT_TYPES.items() for extension in extensions.split()}
    | dict.fromkeys(_MARKDOWN_TYPES.split(), "text/markdown")
    | dict.fromkeys(_HTML_TYPES.split(), "text/html")
)
_NAMED_TYPES: Mapping[str, str] = MappingProxyType({name: media_type for media_type, names in _NAMES.items() for name in names.split()})

LOADER_VERSIONS: Mapping[str, int] = MappingProxyType({"html": 2, "markdown": 1, "text": 1})
"""Rises with every change that yields another text, marks or metadata for the same bytes: part of the recipe."""


def media_type_of(uri: str) -> str | None:
    """The media type that a loader reads this uri as; None when no loader claims it."""
    name = uri[uri.rfind("/") + 1 :].lower()
    dot = name.rfind(".")
    if dot <= 0:
        return _NAMED_TYPES.get(name)
    return _NAMED_TYPES.get(name) or _MEDIA_TYPES.get(name[dot + 1 :])


def claims(uri: str) -> bool:
    return media_type_of(uri) is not None


def load(uri: str, content: bytes) -> LoadedText:
    """Returns the text of a document with its marks. Deterministic; raises only kinds of Rejected."""
    media_type = media_type_of(uri)
    match media_type:
        case None:
            raise DocumentUnparsable(media_type="an unknown type", reason="no loader claims this type")
        case "text/markdown":
            from indexer.load.markdown import load_markdown

            return load_markdown(content, media_type)
        case "text/html":
            from indexer.load.html import load_html

            return load_html(content, media_type)
        case _:
            from indexer.load.text import load_text

            return load_text(content, media_type)
