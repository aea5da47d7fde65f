"""The formats that loaders read: by media type their extensions, names and other names of the type, and which loader reads them.

A table and nothing else: importing it imports no format library. `claims` in the registry runs for every file of every pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Format:
    media_type: str
    loader: str
    """Module and function of the loader, `indexer.load.pdf:load_pdf`."""
    extensions: str = ""
    names: str = ""
    """Documents known by their whole name, when it has no extension."""
    aliases: str = ""
    """Other names under which senders declare the type."""
    is_risky: bool = False
    """Its parser may crash or explode on a hostile document: it runs in the sandbox."""


_TEXT = "indexer.load.text:load_text"
_OFFICE = "application/vnd.openxmlformats-officedocument"
PDF = "application/pdf"
DOCX = f"{_OFFICE}.wordprocessingml.document"
PPTX = f"{_OFFICE}.presentationml.presentation"
XLSX = f"{_OFFICE}.spreadsheetml.sheet"
XLS = "application/vnd.ms-excel"
EPUB = "application/epub+zip"
XML = "application/xml"
FEED = "application/rss+xml"

FORMATS = (
    Format("text/plain", _TEXT, "txt text me 1st nfo org tex textile pod man po pot",
           "readme license licence copying notice authors contributors changelog changes news todo install history"),
    Format("text/markdown", "indexer.load.markdown:load_markdown", "md markdown mdown mkd mdx mdwn qmd rmd", aliases="text/x-markdown"),
    Format("text/html", "indexer.load.html:load_html", "html htm xhtml", aliases="application/xhtml+xml"),
    Format("text/x-rst", "indexer.load.rst:load_rst", "rst rest", aliases="text/prs.fallenstein.rst"),
    Format("text/asciidoc", "indexer.load.asciidoc:load_asciidoc", "adoc asciidoc asc", aliases="text/x-asciidoc"),
    Format("text/x-log", _TEXT, "log out err"),
    Format("text/csv", _TEXT, "csv", aliases="application/csv text/comma-separated-values"),
    Format("text/tab-separated-values", _TEXT, "tsv tab"),
    Format("application/json", "indexer.load.json_text:load_json", "json jsonl ndjson json5 jsonc geojson",
           aliases="application/x-json application/jsonl application/x-ndjson application/ndjson text/json application/ld+json"),
    Format("application/x-ipynb+json", "indexer.load.ipynb:load_ipynb", "ipynb"),
    Format("application/yaml", _TEXT, "yaml yml", aliases="application/x-yaml text/yaml text/x-yaml"),
    Format("application/toml", _TEXT, "toml", aliases="text/x-toml"),
    Format("text/x-ini", _TEXT, "ini cfg conf properties"),
    Format(XML, _TEXT, "xml xsd xsl xslt", aliases="text/xml"),
    Format(FEED, "indexer.load.feed:load_feed", "rss atom", aliases="application/atom+xml", is_risky=True),
    Format("message/rfc822", "indexer.load.eml:load_eml", "eml", is_risky=True),
    Format(PDF, "indexer.load.pdf:load_pdf", "pdf", aliases="application/x-pdf", is_risky=True),
    Format(DOCX, "indexer.load.docx:load_docx", "docx docm dotx", is_risky=True),
    Format(PPTX, "indexer.load.pptx:load_pptx", "pptx pptm ppsx", is_risky=True),
    Format(XLSX, "indexer.load.xlsx:load_xlsx", "xlsx xlsm", is_risky=True),
    Format(XLS, "indexer.load.xls:load_xls", "xls", aliases="application/msexcel application/x-msexcel", is_risky=True),
    Format(EPUB, "indexer.load.epub:load_epub", "epub", is_risky=True),
    Format("text/x-python", _TEXT, "py pyi pyx"),
    Format("text/javascript", _TEXT, "js mjs cjs jsx ts tsx vue svelte", aliases="application/javascript application/x-javascript"),
    Format("text/x-c", _TEXT, "c h cc cpp cxx hh hpp hxx mm cu"),
    Format("text/x-java", _TEXT, "java kt kts scala groovy gradle"),
    Format("text/x-go", _TEXT, "go"),
    Format("text/x-rust", _TEXT, "rs"),
    Format("text/x-ruby", _TEXT, "rb erb rake"),
    Format("text/x-php", _TEXT, "php"),
    Format("text/x-shell", _TEXT, "sh bash zsh fish ps1 bat cmd", aliases="application/x-sh text/x-sh"),
    Format("text/x-sql", _TEXT, "sql", aliases="application/sql"),
    Format("text/css", _TEXT, "css scss sass less"),
    Format("text/x-source", _TEXT,
           "cs fs vb swift dart lua pl pm r jl hs elm ex exs erl clj cljs lisp scm el ml mli nim zig v sv vhd asm s f f90 "
           "proto graphql gql thrift tf hcl nix cmake mk makefile dockerfile diff patch vim awk sed",
           "makefile dockerfile containerfile jenkinsfile vagrantfile rakefile gemfile procfile justfile cmakelists.txt",
           aliases="application/graphql"),
)  # fmt: skip

BY_TYPE: Mapping[str, Format] = MappingProxyType({one.media_type: one for one in FORMATS})
BY_EXTENSION: Mapping[str, str] = MappingProxyType({extension: one.media_type for one in FORMATS for extension in one.extensions.split()})
BY_NAME: Mapping[str, str] = MappingProxyType({name: one.media_type for one in FORMATS for name in one.names.split()})
BY_ALIAS: Mapping[str, str] = MappingProxyType({alias: one.media_type for one in FORMATS for alias in one.aliases.split()})
