// Shows the text of the mark under the pointer. Dragging over a part of a figure zooms in, a double click shows all again.
// The axes of the zoomed part have labels of their own, at the edges.
for (const box of document.querySelectorAll(".cs336-live:not([data-ready])")) {
  box.dataset.ready = "yes";
  const { marks, axes, source = '' } = JSON.parse(box.querySelector("script[type='application/json']").textContent);
  const picture = box.querySelector("img");
  const add = (element, parent, style) => {
    element.style.cssText = style;
    parent.append(element);
    return element;
  };
  const lens = add(document.createElement("div"), box, "overflow: hidden; cursor: crosshair");
  lens.append(picture);
  picture.draggable = false;
  picture.style.display = "block";
  picture.style.transformOrigin = "0 0";
  const labels = add(document.createElement("div"), box, "position: absolute; inset: 0; overflow: hidden; pointer-events: none");
  const selection = add(document.createElement("div"), box,
    "position: absolute; display: none; border: 1px solid #0072b2; background: #0072b230; pointer-events: none");
  const tip = add(document.createElement("div"), box, "position: absolute; display: none; pointer-events: none; z-index: 9;"
    + " max-width: 90%; box-sizing: border-box; padding: 4px 8px; border-radius: 4px; white-space: pre-line;"
    + " font: 12px/1.4 sans-serif; color: #fff; background: #222; border: 1px solid #888");
  tip.className = "cs336-tip";
  const reset = add(document.createElement("button"), box, "position: absolute; display: none; right: 4px; top: 4px");
  reset.textContent = "whole figure";

  // The zoom, and the fractions of the figure that are left of and above the visible part.
  let zoom = 1;
  let left = 0;
  let top = 0;
  const place = event => {
    const { x, y, width, height } = lens.getBoundingClientRect();
    const inside = (at, size) => Math.min(Math.max(at, 0), size);
    return { x: inside(event.clientX - x, width), y: inside(event.clientY - y, height), width, height };
  };
  const show = (factor, x, y) => {
    zoom = Math.min(factor, 50);
    left = Math.min(Math.max(x, 0), 1 - 1 / zoom);
    top = Math.min(Math.max(y, 0), 1 - 1 / zoom);
    picture.style.transform = zoom === 1 ? "" : `scale(${zoom}) translate(${-100 * left}%, ${-100 * top}%)`;
    reset.style.display = zoom === 1 ? "none" : "block";
    tip.style.display = "none";
    label();
  };

  /** Returns round numbers from one end of an axis to the other. */
  const ticks = (from, to, log) => {
    const found = [];
    if (log && to > 5 * from) {
      for (let power = 10 ** Math.floor(Math.log10(from)); power <= to; power *= 10) {
        found.push(...[1, 2, 5].filter(digit => digit === 1 || to < 1e3 * from).map(digit => digit * power));
      }
    } else {
      const decade = 10 ** Math.floor(Math.log10((to - from) / 5));
      const step = decade * [1, 2, 5, 10].find(digit => digit * decade >= (to - from) / 5);
      for (let i = Math.ceil(from / step); i * step <= to; i++) {
        found.push(i * step);
      }
    }
    return found.filter(value => value >= from && value <= to);
  };
  const written = value => value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)
    ? value.toExponential(2).replace(/\.?0*e\+?/, "e")
    : value.toLocaleString("en", { maximumSignificantDigits: 6 });

  /** Labels the axes of the plot in the middle of the visible part, at the edges of the figure. */
  const label = () => {
    labels.replaceChildren();
    const middle = 1e4 * (left + 0.5 / zoom);
    const plot = axes.find(([x, , wide]) => x <= middle && middle <= x + wide);
    if (zoom === 1 || !plot) {
      return;
    }
    const [x, y, wide, high, horizontal, vertical] = plot;
    // The visible interval of each axis, from the first value to the last, in fractions of the plot.
    const edges = (at, size, start, length) => [Math.max(start, at / 1e4), Math.min(start + length, (at + size) / 1e4)]
      .map(edge => (1e4 * edge - at) / size);
    const across = edges(x, wide, left, 1 / zoom);
    const down = edges(y, high, top, 1 / zoom);
    const write = ([min, max, log], [first, last], place) => {
      const value = part => log ? min * (max / min) ** part : min + (max - min) * part;
      const part = at => log ? Math.log(at / min) / Math.log(max / min) : (at - min) / (max - min);
      for (const at of last > first ? ticks(value(first), value(last), log) : []) {
        add(document.createElement("span"), labels, "position: absolute; padding: 0 3px; font: 11px/1.3 sans-serif;"
          + ` color: #222; background: #ffffffd8; ${place(part(at))}`).textContent = written(at);
      }
    };
    if (horizontal.length) {
      write(horizontal, across, part =>
        `bottom: 0; left: ${100 * zoom * ((x + part * wide) / 1e4 - left)}%; transform: translateX(-50%)`);
    }
    if (vertical.length) {
      write(vertical, [1 - down[1], 1 - down[0]], part =>
        `left: 0; top: ${100 * zoom * ((y + (1 - part) * high) / 1e4 - top)}%; transform: translateY(-50%)`);
    }
  };

  /** Returns the text of the mark in front that contains a place, or else that of the nearest point. */
  const textAt = ({ x, y, width, height }) => {
    const [u, v] = [1e4 * (left + x / width / zoom), 1e4 * (top + y / height / zoom)];
    let found;
    let nearest = 15;
    for (const [markX, markY, wide, high, text] of marks) {
      if (wide === 0 && high === 0) {
        const distance = Math.hypot((markX - u) * width, (markY - v) * height) * zoom / 1e4;
        if (distance <= nearest) {
          [found, nearest] = [text, distance];
        }
      } else if (nearest === 15 && u >= markX && u <= markX + wide && v >= markY && v <= markY + high) {
        found = text;
      }
    }
    return found;
  };
  const point = at => {
    const text = textAt(at);
    tip.style.display = text ? "block" : "none";
    if (text) {
      tip.textContent = text + source;
      tip.style.left = tip.style.top = "0";
      const { offsetWidth: wide, offsetHeight: high } = tip;
      tip.style.left = `${Math.max(0, at.x + 14 + wide <= at.width ? at.x + 14 : at.x - 14 - wide)}px`;
      tip.style.top = `${Math.max(0, Math.min(at.y + 10, at.height - high))}px`;
    }
  };

  let start;
  lens.onpointerdown = event => {
    if (event.button === 0 && event.pointerType === "mouse") {
      start = place(event);
      lens.setPointerCapture(event.pointerId);
    } else {
      point(place(event));
    }
  };
  lens.onpointermove = event => {
    const at = place(event);
    if (!start) {
      point(at);
      return;
    }
    tip.style.display = "none";
    Object.assign(selection.style, {
      display: "block", left: `${Math.min(start.x, at.x)}px`, top: `${Math.min(start.y, at.y)}px`,
      width: `${Math.abs(at.x - start.x)}px`, height: `${Math.abs(at.y - start.y)}px`,
    });
  };
  lens.onpointerup = event => {
    selection.style.display = "none";
    const at = place(event);
    if (start && Math.max(Math.abs(at.x - start.x), Math.abs(at.y - start.y)) > 10) {
      // The visible part keeps the figure's shape and has the selection in its middle.
      const part = Math.max(Math.abs(at.x - start.x) / at.width, Math.abs(at.y - start.y) / at.height);
      const middle = [left + (start.x + at.x) / 2 / at.width / zoom, top + (start.y + at.y) / 2 / at.height / zoom];
      const factor = zoom / part;
      show(factor, middle[0] - 0.5 / factor, middle[1] - 0.5 / factor);
    }
    start = undefined;
  };
  lens.onpointercancel = () => {
    selection.style.display = "none";
    start = undefined;
  };
  lens.onpointerleave = () => { tip.style.display = "none"; };
  lens.ondblclick = reset.onclick = () => show(1, 0, 0);
}
