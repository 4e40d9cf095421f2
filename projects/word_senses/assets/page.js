"use strict";
// Without this script the marks are links with titles, and the layers can be switched. It adds the
// panel beside a map, lines to the neighbours of a mark, and arrow keys.
(() => {
  const idOf = (point) => point.getAttribute("href").slice(1);
  const pointOf = (map, id) => map.querySelector(`.point[href="#${id}"]`);
  const centre = (point) => {
    const { e, f } = point.transform.baseVal.consolidate().matrix;
    return [e, f];
  };

  function markNeighbours(map, chosen) {
    const lines = map.querySelector(".lines");
    lines.replaceChildren();
    map.classList.add("busy");
    for (const point of map.querySelectorAll(".point")) point.classList.remove("chosen", "near");
    chosen.classList.add("chosen");
    const [x1, y1] = centre(chosen);
    for (const id of chosen.dataset.near.split(" ").filter(Boolean)) {
      const near = pointOf(map, id);
      const [x2, y2] = centre(near);
      near.classList.add("near");
      const line = document.createElementNS(lines.namespaceURI, "line");
      for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, value);
      lines.append(line);
    }
  }

  function fillPanel(section, id) {
    const shown = document.createElement("div");
    shown.className = "context";
    shown.dataset.context = id;
    for (const node of document.getElementById(id).childNodes) shown.append(node.cloneNode(true));
    section.querySelector(".panel").firstElementChild.replaceWith(shown);
  }

  function show(section, id) {
    for (const map of section.querySelectorAll(".map")) markNeighbours(map, pointOf(map, id));
    fillPanel(section, id);
  }

  function step(map, point, key) {
    const axis = key === "ArrowLeft" || key === "ArrowRight" ? 0 : 1;
    const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
    const order = [...map.querySelectorAll(".point")];
    order.sort((one, other) => centre(one)[axis] - centre(other)[axis]);
    return order[order.indexOf(point) + sign];
  }

  // One mark of a map can be reached with the tabulator, the others with the arrow keys.
  function takeTab(map, chosen) {
    for (const point of map.querySelectorAll(".point")) {
      point.setAttribute("tabindex", point === chosen ? "0" : "-1");
    }
  }

  for (const map of document.querySelectorAll(".map")) {
    const section = map.closest("section");
    // A browser lets an SVG element that listens to focus have it; its figure stays as it is.
    const figure = map.closest("figure");
    takeTab(map, map.querySelector(".point"));
    figure.addEventListener("mouseover", (event) => {
      const point = event.target.closest(".point");
      if (point && !section.dataset.kept) show(section, idOf(point));
    });
    figure.addEventListener("focusin", (event) => {
      const point = event.target.closest(".point");
      if (!point) return;
      takeTab(map, point);
      if (point.matches(":focus-visible")) show(section, idOf(point));
    });
    figure.addEventListener("keydown", (event) => {
      const point = event.target.closest(".point");
      if (!point || !event.key.startsWith("Arrow")) return;
      event.preventDefault();
      const next = step(map, point, event.key);
      if (next) next.focus();
    });
    figure.addEventListener("click", (event) => {
      event.preventDefault();
      const point = event.target.closest(".point");
      const id = point ? idOf(point) : "";
      // A second click, or one beside the marks, lets go of the mark.
      section.dataset.kept = point && section.dataset.kept !== id ? id : "";
      if (point) show(section, id);
    });
  }

  document.documentElement.classList.add("js");

  function followAddress() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.matches(".contexts > li")) return;
    target.closest("details").open = true;
    show(target.closest("section"), target.id);
    target.scrollIntoView();
  }
  addEventListener("hashchange", followAddress);
  followAddress();
})();
