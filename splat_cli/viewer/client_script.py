"""A script in viser's page, for what its API has no setting for.

A drag with the mouse turns the camera by DRAG_SHARE of viser's 360 degrees in a drag over the height of the window.
Splats get an infinite bounding sphere: viser's geometry for them is a quad with two coordinates a vertex, for which
three.js computes NaN and logs an error, again whenever the number of splats has changed.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.http11 import Response

DRAG_SHARE = 0.4
"""Rotation of the camera relative to viser's, for the same movement of the pointer."""
_SCRIPT = """<script>
{
  // Of a drag that began on the canvas, moves are reported as shorter ones from its beginning.
  const share = SHARE, begin = {clientX: 0, clientY: 0, pageX: 0, pageY: 0, movementX: 0, movementY: 0};
  let dragging = false;
  addEventListener("pointerdown", (event) => {
    dragging = false;
    for (const name of Object.keys(begin)) begin[name] = name.startsWith("movement") ? 0 : event[name];
    dragging = event.button === 0 && event.pointerType === "mouse" && event.target instanceof HTMLCanvasElement;
  }, true);
  for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, () => { dragging = false; }, true);
  for (const name of Object.keys(begin)) {
    const read = Object.getOwnPropertyDescriptor(MouseEvent.prototype, name).get;
    Object.defineProperty(MouseEvent.prototype, name, { configurable: true, get() {
      const value = read.call(this), moves = this.type === "pointermove" || this.type === "mousemove";
      return dragging && moves ? begin[name] + share * (value - begin[name]) : value;
    }});
  }

  // three.js announces each scene to its developer tools.
  const tools = globalThis.__THREE_DEVTOOLS__ ??= new EventTarget();
  tools.addEventListener("observe", ({detail: scene}) => {
    if (scene.isScene) scene.onBeforeRender = () => scene.traverse(({geometry}) => {
      if (geometry?.attributes?.position?.itemSize === 2)
        geometry.boundingSphere ??= {center: {x: 0, y: 0, z: 0}, radius: Infinity};
    });
  });
}
</script>""".replace("SHARE", str(DRAG_SHARE))


def add_script(response: Response) -> None:
    """Insert the script at the head of viser's page; other responses are unchanged."""
    if not response.headers.get("Content-Type", "").startswith("text/html"):
        return
    body = _with_script(bytes(response.body or b""), response.headers.get("Content-Encoding") == "gzip")
    response.body = body
    del response.headers["Content-Length"]
    response.headers["Content-Length"] = str(len(body))


@lru_cache(2)
def _with_script(body: bytes, is_gzip: bool) -> bytes:
    page = gzip.decompress(body) if is_gzip else body
    page = page.replace(b"<head>", b"<head>" + _SCRIPT.encode(), 1)
    return gzip.compress(page) if is_gzip else page
