"""Measure the seconds from opening a page until Chromium shows the first picture, and until it draws the splats.

Needs Chromium and playwright; a GPU is not used. A picture's time is taken from its frame in a screencast. A report's
first picture is a photograph, which the splats replace. Example:

  splat export runs/garden garden.html && python scripts/bench/first_picture.py garden.html
"""

import base64
import io
import shutil
import time
from pathlib import Path

import click
import numpy as np
from playwright.sync_api import Browser, sync_playwright

from splat_cli.io.image_files import open_image

_OPTIONS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
_SECONDS = 12.0
_NOTE_SPLATS = """
new MutationObserver(() => {
  if (document.body?.dataset.state === "ready") window.readyAt ??= Date.now() / 1000;
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state"] });
"""


def first_picture(browser: Browser, url: str) -> tuple[float, float]:
    """Seconds from the navigation to the first frame that is not one colour, and to splats; inf after _SECONDS."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(_NOTE_SPLATS)
    page.goto("about:blank")
    session, frames = page.context.new_cdp_session(page), []

    def keep(event: dict) -> None:
        frames.append((event["metadata"]["timestamp"], event["data"]))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", keep)
    session.send("Page.startScreencast", {"format": "png", "maxWidth": 320, "maxHeight": 200})
    began = time.time()
    page.goto(url, wait_until="commit")
    page.wait_for_timeout(1000 * _SECONDS)
    splats = page.evaluate("window.readyAt") or float("inf")
    for at, data in frames:
        if np.asarray(open_image(io.BytesIO(base64.b64decode(data))).convert("L")).std() > 5:
            return float(at - began), float(splats - began)
    return float("inf"), float(splats - began)


@click.command()
@click.argument("page", type=click.Path(path_type=Path, exists=True))
@click.option("--times", default=6, show_default=True, help="Number of browsers started one after another.")
def main(page: Path, times: int) -> None:
    """Print the seconds until PAGE shows a picture, and until it draws splats, sorted."""
    url = f"{page.resolve().as_uri()}?noui"  # without buttons and photographs
    seconds = []
    with sync_playwright() as playwright:
        for _ in range(times):
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_OPTIONS)
            seconds.append(first_picture(browser, url))
            browser.close()
    for what, after in zip(("first picture", "splats"), zip(*seconds, strict=True), strict=True):
        print(f"{what} after {', '.join(f'{one:.2f}' for one in sorted(after))} s")


if __name__ == "__main__":
    main()
