{
  // Scale the movement of a drag that began on the canvas.
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

  // Draw splats as training does; scripts/viewer/bundle.py does the same to the pages' viewer. viser's shader leaves out
  // splats with a centre outside of the frame, shrinks large ones, and drops faint ones and faint edges.
  const changes = {
    "float clip = 1.1 * pos2d.w;": "float clip = 1e6 * pos2d.w;",
    // Beside the frame, splats are projected as at 1.3 times its edge; otherwise, some would cover the whole picture.
    "mat3 J = mat3(": "vec2 edge = 0.65 * viewport / vec2(fx, fy);\n"
      + "vec2 slope = clamp(c_cam.xy / c_cam.z, -edge, edge);\nmat3 J = mat3(",
    "-(fx * c_cam.x) / (c_cam.z * c_cam.z), -(fy * c_cam.y) / (c_cam.z * c_cam.z), 0.":
      "-fx * slope.x / c_cam.z, -fy * slope.y / c_cam.z, 0.",
    "min(sqrt(2.0 * lambda1), 1024.0)": "1.2 * sqrt(2.0 * lambda1)",
    "min(sqrt(2.0 * lambda2), 1024.0)": "1.2 * sqrt(2.0 * lambda2)",
    "vPosition = position.xy;": "vPosition = 1.2 * position.xy;",
    "if (weightedDeterminant < 0.25)": "if (vRgba.a < 1.0 / 255.0)",
    "if (A < -4.0) discard;": "",
    "if (B < 0.01) discard;": "if (B < 1.0 / 255.0) discard;",
  };
  const compile = WebGL2RenderingContext.prototype.shaderSource;
  WebGL2RenderingContext.prototype.shaderSource = function (shader, source) {
    if (/textureT_camera_groups|vec4 vRgba/.test(source))
      for (const [before, after] of Object.entries(changes)) source = source.replace(before, after);
    return compile.call(this, shader, source);
  };
}
