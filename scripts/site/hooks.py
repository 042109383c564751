"""What MkDocs is told besides mkdocs.yml: pages from outside docs/, their links, and the languages of code blocks.

MkDocs itself checks links between pages and to headings, and that the nav has every page. It knows only what is below
docs/, so links into the rest of the repository are checked here.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.plugins.forebay")

TOP = Path(__file__).resolve().parents[2]

# Pages that stand where a reader of the repository looks for them: their path there, and in the site.
OUTSIDE = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "understand/architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "understand/benchmarks.md",
    "examples/star-catalogue/README.md": "use/star-catalogue.md",
}

# What a block of code may be. `console`: a session, `$ ` before each command and its output, shortened by `…`, below.
# `sh`: commands that run as they stand. The blocks of a page go on from each other. All others are for reading.
LANGUAGES = {"console", "sh", "bash", "c", "json", "toml", "text", "arrows"}

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```(.*)$")


def on_files(files, config):
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(TOP / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Check the blocks of code of a page, and make its links fit where the page stands in the site."""
    inside = {site: path for path, site in OUTSIDE.items()}
    source = inside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    lines, quoted = [], False
    for line in markdown.split("\n"):
        fence = FENCE.match(line)
        if fence and not quoted and fence.group(1) not in LANGUAGES:
            log.warning("%s: a block of code has the language '%s'; use one of %s", source, fence.group(1),
                        ", ".join(sorted(LANGUAGES)))
        if fence:
            quoted = not quoted
        elif not quoted and not line.startswith("    "):
            line = LINK.sub(lambda link: placed(link, source, page.file.src_uri), line)
        lines.append(line)
    if quoted:
        log.warning("%s: a block of code does not end", source)
    return "\n".join(lines)


def placed(link, source, page):
    """The link as it must be in the site; what is in the repository and not in the site is named by its path."""
    text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link.group(0)
    path, mark, heading = target.partition("#")
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    site = OUTSIDE.get(meant) or (meant.removeprefix("docs/") if meant.startswith("docs/") else None)
    if site:
        return f"[{text}]({posixpath.relpath(site, posixpath.dirname(page) or '.')}{mark}{heading})"
    if not (TOP / meant).exists():
        log.warning("%s: links to %s, which is not there", source, meant)
    return text if text in (meant, f"`{meant}`") else f"{text} (`{meant}`)"
