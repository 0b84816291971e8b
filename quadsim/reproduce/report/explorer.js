// The sliders select among precomputed curves; only positions on the page are computed here.
"use strict";
(() => {
  const source = document.getElementById("curves");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const curves = bytes(data.curves);
  const ends = new Float32Array(bytes(data.ends).buffer);
  const names = {
    1: "Case 1: GPT2’s blocks", 2: "Case 2: ResNet18’s blocks",
    3: "Case 3: {1, 2, 3} {99, 100, 101} {4998, 4999, 5000}", 4: "Case 4: {1, 99, 4998} {2, 100, 4999} {3, 101, 5000}",
  };
  const plain = { 1: names[1], 2: names[2], 3: "Case 3", 4: "Case 4" };
  function title(number) {
    // the eigenvalues are those in the name only at the default κ and arrangement
    const kappa = data.axes.kappa[chosen.kappa], share = data.axes.heterogeneity[chosen.heterogeneity];
    if (kappa === 5000 && share === null) return names[number];
    return plain[number] + (kappa === 5000 ? "" : `, at κ = ${kappa.toLocaleString("en")}`) + (share === null ? "" : `, heterogeneity ${share}${arrangement(number)}`);
  }
  function arrangement(number) {
    const every = (data.arrangements || {})[number];
    return every ? ` (arrangement ${every.numbers[chosen.heterogeneity]} of ${every.of})` : "";
  }
  const ink = (colour) => "#" + [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * 0.72).toString(16).padStart(2, "0")).join("");
  const controls = {
    kappa: ["condition number κ", (value) => value.toLocaleString("en")],
    heterogeneity: ["heterogeneity", (value) => (value === null ? "its own" : value === 0 ? "0, alike" : value === 1 ? "1, sorted" : String(value))],
    rotation: ["rotation", (value) => (value === 0 ? "0, diagonal" : value === 1 ? "1, Haar" : String(value))],
    seed: ["seed", String],
  };
  const defaults = { kappa: data.axes.kappa.indexOf(5000), heterogeneity: 0, rotation: data.axes.rotation.indexOf(1), seed: 0 };
  const order = Object.keys(data.axes); // case first
  const chosen = { ...defaults };

  const phone = matchMedia("(max-width: 900px)");
  const high = 300, left = 46, right = 12, top = 10, bottom = 34;
  let wide = 480, panels = [];
  const each = ends.length / data.axes.case.length / data.axes.kappa.length; // the ends of one case and one κ
  let farthest = 1;
  function reach() {
    // the axis fits all curves of this κ and changes with κ only
    let most = 10;
    data.axes.case.forEach((_, number) => {
      const first = (number * data.axes.kappa.length + chosen.kappa) * each;
      for (let k = first; k < first + each; k++) most = Math.max(most, ends[k]);
    });
    return Math.ceil(Math.log10(most));
  }
  const x = (step) => left + (Math.log10(step) / farthest) * (wide - left - right);
  const lowest = Math.log10(data.tol);
  const y = (decade) => top + ((0.5 - decade) / (0.5 - lowest)) * (high - top - bottom);
  const superscript = (n) => "10" + String(n).replace(/./g, (c) => ("-0123456789".indexOf(c) < 0 ? c : "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]));

  function element(kind, attributes, parent, text) {
    const svg = ["svg", "path", "line", "text", "circle", "g", "title"].includes(kind);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", kind) : document.createElement(kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  function problemIndex(number) {
    // the index of a problem: the axes' values in their order, the last one running fastest
    return order.reduce((index, axis) => index * data.axes[axis].length + (axis === "case" ? data.axes.case.indexOf(number) : chosen[axis]), 0);
  }

  function path(problem, which) {
    const n = data.points, first = (problem * data.optimizers.length + which) * n;
    const last = ends[problem * data.optimizers.length + which];
    let text = "";
    for (let k = 0; k < n; k++) {
      const decade = data.top - (curves[first + k] / 255) * (data.top - data.bottom);
      const step = Math.pow(last, k / (n - 1));
      text += `${k ? "L" : "M"}${x(step).toFixed(1)} ${y(Math.max(lowest, Math.min(decade, 0.5))).toFixed(1)}`;
    }
    return text;
  }

  function panel(number) {
    const figure = element("figure", { id: `case-${number}` }, document.getElementById("panels"));
    const caption = element("figcaption", {}, figure);
    const name = element("b", {}, caption);
    element("br", {}, caption);
    const summary = element("span", {}, caption);
    const svg = element("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": plain[number] }, figure);
    for (let decade = 0; decade >= lowest; decade -= 2) {
      element("line", { x1: left, x2: wide - right, y1: y(decade), y2: y(decade), stroke: "#eeeeee" }, svg);
      element("text", { x: left - 6, y: y(decade) + 4, "text-anchor": "end" }, svg, superscript(decade));
    }
    for (let power = 0; power <= farthest; power += farthest > 8 ? 2 : 1) {
      element("line", { x1: x(10 ** power), x2: x(10 ** power), y1: high - bottom, y2: high - bottom + 4, stroke: "#444444" }, svg);
      element("text", { x: x(10 ** power), y: high - bottom + 17, "text-anchor": "middle" }, svg, superscript(power));
    }
    element("line", { x1: left, x2: wide - right, y1: high - bottom, y2: high - bottom, stroke: "#444444" }, svg);
    element("text", { x: (left + wide - right) / 2, y: high - 3, "text-anchor": "middle" }, svg, "steps");
    element("text", { x: left + 4, y: top + 2 }, svg, "gradient norm");
    const lines = data.optimizers.map((one) => element("path", { fill: "none", stroke: one.colour, "stroke-width": 2.2, "stroke-linejoin": "round" }, svg));
    const marks = data.optimizers.map((one) => element("circle", { r: 3.5, fill: one.colour }, svg));
    return { number, name, summary, lines, marks };
  }

  function build() {
    wide = phone.matches ? Math.min(Math.max(innerWidth - 28, 300), 860) : 480; // constant font size on a phone
    farthest = reach();
    document.getElementById("panels").replaceChildren();
    panels = data.axes.case.map(panel);
  }

  function show() {
    if (farthest !== reach()) build();
    for (const { number, name, summary, lines, marks } of panels) {
      const problem = problemIndex(number);
      name.textContent = title(number);
      summary.replaceChildren();
      data.optimizers.forEach((one, which) => {
        const last = ends[problem * data.optimizers.length + which];
        lines[which].setAttribute("d", path(problem, which));
        marks[which].setAttribute("cx", x(last));
        marks[which].setAttribute("cy", y(lowest));
        element("b", {}, summary, one.label).style.color = ink(one.colour);
        summary.append(` ${Math.round(last).toLocaleString("en")}${which < data.optimizers.length - 1 ? " · " : " steps"}`);
      });
    }
  }

  build();
  phone.addEventListener("change", () => { build(); show(); });
  for (const [axis, [word, format]] of Object.entries(controls)) {
    const label = element("label", { for: axis }, document.getElementById("sliders"), word);
    const shown = element("span", { id: `${axis}-value`, class: "value", "aria-hidden": "true" }, label, format(data.axes[axis][chosen[axis]]));
    const slider = element("input", { type: "range", id: axis, min: 0, max: data.axes[axis].length - 1, step: 1, value: chosen[axis] }, label);
    const update = () => {
      chosen[axis] = Number(slider.value);
      shown.textContent = format(data.axes[axis][chosen[axis]]);
      slider.setAttribute("aria-valuetext", shown.textContent);
      show();
    };
    slider.value = chosen[axis];
    slider.addEventListener("input", update);
    update();
  }
})();
