"""Hooks that MkDocs calls while it builds the site: they add pages and convert the text of all.

ICDC_SITE_SOURCE is the address below which a git host shows the files of the repository. With
ICDC_SITE_VERSIONED pages have a menu of the versions (site_versions.py).
"""

import os
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import site_pages

STYLE = "site.css"
_PATHS = {on_site: path for path, on_site in site_pages.PAGES.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Switch on the theme's menu of versions, where there are any."""
    if os.environ.get("ICDC_SITE_VERSIONED"):
        # mike is who first wrote such a list; the theme has no other form of it.
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/, and the style."""
    for path, on_site in site_pages.PAGES.items():
        text = (site_pages.ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, on_site, content=text))
    style = (Path(__file__).parent / STYLE).read_text(encoding="utf-8")
    files.append(File.generated(config, STYLE, content=style))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page as the site's renderer takes it."""
    on_site = page.file.src_uri
    path = _PATHS.get(on_site, f"{site_pages.DOCS}{on_site}")
    source = os.environ.get("ICDC_SITE_SOURCE", "").rstrip("/")
    return site_pages.convert_page(markdown, path=path, source=source)
