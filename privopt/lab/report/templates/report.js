// A click on the head of a column sorts the table; a second click reverses the order.
const key = (row, column) => {
  const text = row.cells[column].textContent.trim().replace(/^[✓✗≡?≤<>±\s]+/, "").replace(/−/g, "-");
  const value = parseFloat(text.replace(/,(?=\d{3})/g, ""));
  return Number.isNaN(value) ? text : value;
};
const compare = (a, b) =>
  typeof a === typeof b && typeof a === "number" ? a - b : String(a).localeCompare(String(b));
for (const head of document.querySelectorAll("thead th")) {
  const table = head.closest("table"), column = head.cellIndex, button = document.createElement("button");
  if (table.tBodies[0].rows.length < 2) continue;
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].sort((a, b) => compare(key(a, column), key(b, column)));
    table.tBodies[0].append(...(down ? rows.reverse() : rows));
  });
}

// Filters hide rows and experiments; tables with a match open and close again without a filter.
const all = (what, at = document) => [...at.querySelectorAll(what)];
const items = all("[data-family]"), boxes = all("details.table"), fields = ["verdict", "family", "algorithm"];
const has = (item, field) => item.dataset[field].split("|").filter(Boolean);
const bar = document.createElement("form");
bar.className = "filter";
bar.innerHTML = '<label>Search <input type="search" name="text"></label>' + fields.map(field =>
  `<label>${field} <select name="${field}"><option value="">all</option></select></label>`).join("") +
  "<output></output>";
for (const field of fields)
  for (const value of [...new Set(items.flatMap(item => has(item, field)))].sort())
    bar.elements[field].add(new Option(value));
const filter = () => {
  const words = bar.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = fields.filter(field => bar.elements[field].value), active = words.length + chosen.length > 0;
  for (const item of items) {
    const text = words.length ? item.textContent.toLowerCase() : "";
    item.hidden = !(words.every(word => text.includes(word)) &&
      chosen.every(field => has(item, field).includes(bar.elements[field].value)));
  }
  const shown = within => all("[data-family]:not([hidden])", within);
  for (const box of boxes) {
    box.hidden = shown(box).length === 0;
    box.open = active && !box.hidden;
  }
  for (const part of all("main > section")) part.hidden = part.id !== "-verdicts" && shown(part).length === 0;
  const rows = boxes.flatMap(shown).length, experiments = all("article:not([hidden])").length;
  bar.querySelector("output").textContent = active ? `${rows} rows, ${experiments} experiments` : "";
};
bar.addEventListener("input", filter);
bar.addEventListener("submit", event => event.preventDefault());
document.querySelector("main").prepend(bar);

// The target of a link is shown even if it is folded or filtered out.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) { bar.reset(); filter(); }
  if (target.tagName === "ARTICLE") target.querySelector("details").open = true;
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
