"use strict";

for (const stage of document.querySelectorAll(".stage")) {
  const range = stage.querySelector("input");
  range.addEventListener("input", () => stage.style.setProperty("--cut", range.value + "%"));
}

// Commands to copy. Where a page may not write to the clipboard, the button selects the command.
for (const block of document.querySelectorAll(".verdict pre")) {
  const [code, button] = [block.firstElementChild, document.createElement("button")];
  [button.type, button.textContent] = ["button", "copy"];
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = "selected";
    }
  });
  block.append(button);
}

// Renders of all runs lie on top of each other; menus choose the two that are shown.
for (const select of document.querySelectorAll(".choice select")) {
  const side = select.dataset.side;
  select.addEventListener("change", () => {
    for (const stage of document.querySelectorAll(".stage.compared")) {
      [...stage.querySelectorAll("img")].forEach((image, number) => {
        image.classList.toggle(side + "-side", number === Number(select.value));
      });
      stage.querySelector("." + side).textContent = select.selectedOptions[0].textContent;
    }
  });
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
