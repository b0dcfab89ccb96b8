"use strict";

for (const stage of document.querySelectorAll(".stage")) {
  const range = stage.querySelector("input");
  range.addEventListener("input", () => stage.style.setProperty("--cut", range.value + "%"));
}

// Show the value nearest to the pointer instead of a diagram's summary.
for (const svg of document.querySelectorAll(".chart svg")) {
  const points = JSON.parse(svg.dataset.hover);
  const cursor = svg.querySelector(".cursor");
  const output = svg.parentElement.querySelector("output");
  const summary = output.textContent;
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const [place, text] = points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    output.textContent = text;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("x1", -9);
    cursor.setAttribute("x2", -9);
    output.textContent = summary;
  });
}
