"""Write pictures of the site's pages: `python .ci/screenshots.py SITE FOLDER`.

SITE is a folder that `mkdocs build` has written. Each page is shown in the light and the dark
scheme, on a desktop and a phone. It needs the extra `browser`, and Chromium or Google Chrome.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from playwright.sync_api import ViewportSize, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Names of pictures, and the addresses of pages in the site.
PAGES = {
    "landing": "",
    "rules": "rules/",
    "rule": "rules/GRAPH-BREAK-001/",
    "sample-report": "sample-report/",
}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Widths and heights of windows in pixels.
SIZES = ((1280, 800), (400, 800))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Print nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on this machine alone; the address ends in a slash."""
    handler = partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a headless browser of this machine.

    Raises:
        FileNotFoundError: there is none of ``BROWSERS``.
    """
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise FileNotFoundError(f"no browser found, tried {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(
    started: Browser, address: str, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> Iterator[Page]:
    """Open a page in a window of a size; requests to other hosts fail."""
    viewport = ViewportSize(width=size[0], height=size[1])
    with started.new_context(viewport=viewport, color_scheme=scheme) as context:
        context.route(lambda url: not url.startswith("http://127.0.0.1:"), lambda r: r.abort())
        page = context.new_page()
        page.goto(address, wait_until="networkidle")
        yield page


def main(arguments: list[str]) -> int:
    """Write a picture of the first screen for each page, size and scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        address = stack.enter_context(served(options.site))
        started = stack.enter_context(browser())
        for name, path in PAGES.items():
            for size in SIZES:
                for scheme in SCHEMES:
                    picture = options.folder / f"{name}-{scheme}-{size[0]}.png"
                    with opened(started, address + path, size, scheme) as page:
                        page.screenshot(path=picture)
                    print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
