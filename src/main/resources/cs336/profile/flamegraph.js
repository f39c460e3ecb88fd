"use strict";
// Makes a flame graph one to explore: click to zoom, Ctrl-F or / to search, Escape to reset.
(() => {
  const data = "@DATA@";
  const look = data.look;
  const SVG = "http://www.w3.org/2000/svg";
  const svg = document.currentScript.closest("svg");
  const still = svg.querySelector("[id$='-frames']");

  // Callers stand before their callees, so one pass gives each frame its caller, its place and its end.
  const frames = data.frames.map(([name, depth, value]) =>
    ({ name, depth, value, full: data.names[name], label: data.labels[name] || data.names[name], callees: 0 }));
  const open = [];
  for (const frame of frames) {
    open.length = frame.depth;
    frame.caller = open[frame.depth - 1] || null;
    frame.start = frame.caller ? frame.caller.next : 0;
    frame.next = frame.start;
    if (frame.caller) {
      frame.caller.next += frame.value;
      frame.caller.callees++;
    }
    open.push(frame);
  }
  const root = frames[0];

  const make = (name, attributes, parent) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(element);
    return element;
  };

  const width = text => [...text].reduce((sum, c) => sum + (data.advances[c] || 0), 0);

  const write = (text, x, y, parent) => {
    for (const c of text) {
      if (c !== " " && c in data.advances) make("use", { href: "#glyph-" + c.codePointAt(0), x, y }, parent);
      x += data.advances[c] || 0;
    }
  };

  const fitted = (text, room) => {
    if (width(text) <= room) return text;
    let letters = 0;
    let used = width("…");
    while (used + width(text[letters]) <= room) used += width(text[letters++]);
    return letters < look.fewest ? "" : text.slice(0, letters).trimEnd() + "…";
  };

  const amount = value => (value / data.perUnit).toLocaleString("en", { maximumSignificantDigits: 4 })
    + " " + data.unit;
  const percent = part => (100 * part).toPrecision(3) + " %";
  const color = frame =>
    look.colors[frame.callees === 0 ? 2 : frame.full.includes("::") ? 1 : 0][frame.name % 3];

  const live = make("g", { id: "live" });
  still.replaceWith(live);
  const bottom = svg.viewBox.baseVal.height - 9 * 2;
  const said = make("g", {}, svg);
  let zoomed = root;
  let sought = "";

  const isSought = frame => sought !== "" && frame.full.toLowerCase().includes(sought);

  // What is sought, as a share of the whole; inside a frame that counts, nothing counts again.
  const soughtShare = () => {
    let sum = 0;
    let end = 0;
    for (const frame of frames) {
      if (frame.start >= end && isSought(frame)) {
        sum += frame.value;
        end = frame.start + frame.value;
      }
    }
    return sum / root.value;
  };

  // The machine and commit of the measurement are at the right end of the line about the frame under the pointer.
  const originStart = look.width - look.margin - width(data.origin);

  const say = text => {
    said.replaceChildren();
    write(data.origin, originStart, bottom, said);
    write(fitted(text, originStart - 2 * look.margin), look.margin, bottom, said);
  };

  const sayState = () => {
    if (sought !== "") say(`"${sought}": ${percent(soughtShare())} of all`);
    else if (zoomed !== root) say(`${zoomed.full}: ${amount(zoomed.value)}, ${percent(zoomed.value / root.value)} of all; Escape resets`);
    else say("click a frame to zoom; Ctrl-F or / to search; Escape to reset");
  };

  const sayFrame = frame =>
    say(`${frame.full}: ${amount(frame.value)}, ${percent(frame.value / root.value)} of all`
      + (frame.caller ? `, ${percent(frame.value / frame.caller.value)} of ${frame.caller.label}` : ""));

  const draw = () => {
    live.replaceChildren();
    const scale = (look.width - 2 * look.margin) / zoomed.value;
    const end = zoomed.start + zoomed.value;
    for (const frame of frames) {
      const from = Math.max(frame.start, zoomed.start);
      const to = Math.min(frame.start + frame.value, end);
      const wide = (to - from) * scale - look.gap;
      if (wide < look.narrowest) continue;
      const x = look.margin + (from - zoomed.start) * scale;
      const y = look.top + frame.depth * look.row;
      const group = make("g", { style: "cursor:pointer" }, live);
      make("rect", {
        x, y, width: wide, height: look.row - look.gap,
        fill: isSought(frame) ? look.sought : color(frame),
        opacity: frame.depth < zoomed.depth ? 0.6 : 1
      }, group);
      const label = frame === root ? `${frame.label}: ${amount(frame.value)}` : frame.label;
      write(fitted(label, wide - 2 * look.padding), x + look.padding, y + look.baseline, group);
      group.addEventListener("click", () => zoom(frame));
      group.addEventListener("mouseenter", () => sayFrame(frame));
      group.addEventListener("mouseleave", sayState);
    }
    sayState();
  };

  const zoom = frame => {
    zoomed = frame;
    draw();
  };

  const search = text => {
    sought = text.toLowerCase();
    draw();
  };

  const box = make("foreignObject", { x: look.width - look.margin - 440, y: 10, width: 440, height: 52 }, svg);
  const input = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
  input.setAttribute("placeholder", "search");
  input.setAttribute("style", "box-sizing:border-box;width:100%;height:100%;font:24px sans-serif;padding:0 12px;"
    + "border:1px solid #bbb;border-radius:6px;outline:none;color:#222;background:#fff");
  input.addEventListener("input", () => search(input.value));
  box.appendChild(input);

  document.addEventListener("keydown", event => {
    const find = (event.ctrlKey || event.metaKey) && event.key === "f";
    if (find || (event.key === "/" && document.activeElement !== input)) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape") {
      input.value = "";
      input.blur();
      sought = "";
      zoom(root);
    }
  });
  draw();
})();
