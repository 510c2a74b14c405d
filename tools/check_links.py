"""Check the links between the pages of a built site: ``python -m tools.check_links docs/_build/html``.

Every link and picture within the site must lead to a file, and every anchor to an element of that page. Links to other
sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        wanted = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if wanted and found.get(wanted):
            self.links.append(str(found[wanted]))


def read_page(path: Path) -> tuple[list[str], set[str]]:
    """Return the links and the anchors of a page."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page.links, page.anchors


def broken_links(folder: Path) -> list[str]:
    """Return a line for each link that leads nowhere."""
    pages = {path.resolve(): read_page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    broken = []
    for path, (links, _) in pages.items():
        for link in links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target][1]:
                broken.append(f"{path.relative_to(folder.resolve())}: {link} (no such anchor)")
    return broken


def main() -> None:
    """Print the broken links of a folder, and exit with 1 if there are any."""
    found = broken_links(Path(sys.argv[1]))
    print("\n".join(found) or "All links between pages lead to a page and an anchor.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
