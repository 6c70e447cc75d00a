// The chart of excess risk: problem and axis are selected, methods are hidden by a click.
(() => {
  const series = JSON.parse(document.getElementById("series").textContent);
  const section = document.getElementById("-chart");
  if (!series.length) { section.hidden = true; return; }
  const form = section.querySelector(".pickers"), box = section.querySelector(".chart");
  const keys = section.querySelector(".keys"), hidden = new Set();
  form.innerHTML = '<label>problem <select name="problem"></select></label><label>axis <select name="axis"></select></label>';
  const problems = [...new Set(series.map(each => each.problem))];
  for (const name of problems) form.elements.problem.add(new Option(name));
  const start = problems.findIndex(name => name.startsWith("Synthetic: logistic"));
  form.elements.problem.selectedIndex = Math.max(start, 0);
  const current = () => series.find(each =>
    each.problem === form.elements.problem.value && each.axis === form.elements.axis.value);
  const listAxes = () => {
    const before = form.elements.axis.value, axes = form.elements.axis;
    axes.replaceChildren(...series.filter(each => each.problem === form.elements.problem.value)
      .map(each => new Option(each.axis)));
    const options = [...axes.options].map(each => each.value);
    axes.value = options.find(each => each === before) ?? options.find(each => each.includes("ε")) ?? options[0];
  };
  const text = value => value >= 1000 ? value.toLocaleString("en") :
    value >= 1e-4 ? String(+value.toPrecision(3)) : value.toExponential(1);
  const escape = value => value.replace(/[&<>"]/g, sign => `&#${sign.charCodeAt(0)};`);

  const draw = () => {
    const shown = current(), methods = shown.methods.filter(each => !hidden.has(each.name));
    const width = Math.max(box.clientWidth, 300), narrow = width < 600, height = narrow ? 320 : 420;
    const left = 62, right = 14, top = 10, bottom = 44;
    const xs = shown.methods.flatMap(each => each.points.map(point => point[0]));
    const measured = methods.flatMap(each => each.points.map(point => point[1])).concat(shown.zero.map(p => p[1]));
    const bounds = methods.flatMap(each => each.bound.map(point => point[1]));
    if (!xs.length || !measured.length) { box.textContent = "No method is selected."; return; }
    const most = Math.max(...measured), least = Math.min(...measured);
    // Bounds far above all measurements would compress the rest.
    const high = Math.min(Math.max(most, ...bounds), 10 * most) * 1.3, low = Math.max(least, 1e-5 * most) / 1.6;
    const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    const x = v => left + (width - left - right) * (x1 > x0 ? Math.log(v / x0) / Math.log(x1 / x0) : 0.5);
    const y = v => top + (height - top - bottom) * Math.log(high / v) / Math.log(high / low);
    const path = points => points.map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
    const line = (points, colour, dash, size) => points.length < 2 ? "" :
      `<path d="${path(points)}" fill="none" stroke="${colour}" stroke-width="${size}" stroke-dasharray="${dash}"/>`;
    let svg = "";
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of high / low > 300 ? [1] : [1, 2, 5]) {
        const value = factor * 10 ** power;
        if (value < low || value > high) continue;
        svg += `<path class="grid" d="M${left} ${y(value).toFixed(1)}H${width - right}"/>` +
          `<text x="${left - 6}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">${text(value)}</text>`;
      }
    let last = -Infinity;
    for (const value of [...new Set(xs)].sort((a, b) => a - b)) {
      if (x(value) - last < 46) continue;
      last = x(value);
      svg += `<text x="${last.toFixed(1)}" y="${height - bottom + 18}" text-anchor="middle">${text(value)}</text>`;
    }
    svg += `<text x="${(left + width - right) / 2}" y="${height - 6}" text-anchor="middle">${escape(shown.axis)}</text>`;
    let lines = line(shown.zero, "currentColor", "7 3 1 3", 1.2) + line(shown.lower, "currentColor", "1.5 3", 1.2);
    for (const each of methods) {
      const band = each.points.filter(point => point[2] && point[3]);
      if (band.length > 1) lines += `<path d="${path(band.map(p => [p[0], p[2]]))}${path(band.map(p => [p[0], p[3]]).reverse()).replace("M", "L")}Z" fill="${each.colour}" opacity="0.18"/>`;
      lines += line(each.bound, each.colour, "5 4", 1.1) + line(each.points, each.colour, each.tuned ? "2 2" : "", each.tuned ? 1.4 : 2.2);
      for (const point of each.points)
        lines += `<circle cx="${x(point[0]).toFixed(1)}" cy="${y(point[1]).toFixed(1)}" r="${each.tuned ? 2.5 : 3.5}" fill="${each.colour}"/>`;
    }
    box.innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(shown.label)} against ${escape(shown.axis)}: ${escape(shown.problem)}">` +
      `<clipPath id="-clip"><rect x="${left - 5}" y="${top}" width="${width - left - right + 10}" height="${height - top - bottom}"/></clipPath>` +
      `${svg}<g clip-path="url(#-clip)">${lines}</g></svg><div class="tip" hidden></div>`;
    const tip = box.querySelector(".tip"), drawing = box.querySelector("svg");
    const hover = event => {
      const at = event.clientX - drawing.getBoundingClientRect().left;
      const value = [...new Set(xs)].reduce((a, b) => Math.abs(x(b) - at) < Math.abs(x(a) - at) ? b : a);
      const find = points => points.find(point => point[0] === value);
      const rows = methods.flatMap(each => {
        const point = find(each.points), bound = find(each.bound);
        return point ? [[point[1], each.colour, each.name, text(point[1]) +
          (point[2] && point[3] ? ` [${text(point[2])}, ${text(point[3])}]` : "") + (bound ? `, bound ${text(bound[1])}` : "")]] : [];
      });
      for (const [name, points] of [["zero predictor", shown.zero], ["lower bound", shown.lower]])
        if (find(points)) rows.push([find(points)[1], "currentColor", name, text(find(points)[1])]);
      rows.sort((a, b) => a[0] - b[0]);
      tip.innerHTML = `<b>${escape(shown.axis)} = ${text(value)}</b>` + rows.map(row =>
        `<div><i style="background:${row[1]}"></i>${escape(row[2])}: ${row[3]}</div>`).join("");
      tip.hidden = false;
      tip.style.left = `${Math.max(0, Math.min(x(value) + 12, width - tip.offsetWidth))}px`;
    };
    drawing.addEventListener("pointermove", hover);
    drawing.addEventListener("pointerdown", hover);
    drawing.addEventListener("pointerleave", () => { tip.hidden = true; });
    keys.replaceChildren(...shown.methods.map(each => {
      const button = document.createElement("button");
      button.type = "button";
      button.innerHTML = `<i style="background:${each.colour}"></i>${escape(each.name)}`;
      button.setAttribute("aria-pressed", String(!hidden.has(each.name)));
      button.addEventListener("click", () => {
        if (!hidden.delete(each.name)) hidden.add(each.name);
        draw();
      });
      return button;
    }));
  };
  form.addEventListener("input", event => { if (event.target.name === "problem") listAxes(); draw(); });
  addEventListener("resize", draw);
  listAxes();
  draw();
})();
