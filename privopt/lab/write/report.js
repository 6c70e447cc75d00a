// A click on the head of a column sorts its table, a second one the other way round.
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
