// Tables of the class "sortable": sort by a click on a head, filter by a text and by the words of a column.
// Tables of the class "stacked": cells know the heads of their columns, which a narrow window shows before them.
"use strict";

const MAX_WORDS = 12; // a column with so few different texts gets a menu

function value(row, column) {
  return row.cells[column].textContent.trim();
}

function order(a, b) {
  const x = Number(a.replace(/,/g, "")), y = Number(b.replace(/,/g, ""));
  if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a.localeCompare(b, "en", { numeric: true });
}

function sortBy(table, column) {
  const head = table.tHead.rows[0].cells[column];
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const sign = descending ? -1 : 1;
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const x = value(a, column), y = value(b, column);
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // empty cells stay at the end
    return sign * order(x, y);
  });
  table.tBodies[0].append(...rows);
}

function filter(table, controls, count) {
  const text = controls.querySelector("input").value.toLowerCase();
  const menus = [...controls.querySelectorAll("select")].filter((menu) => menu.value !== "");
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const fits = row.textContent.toLowerCase().includes(text) &&
      menus.every((menu) => value(row, Number(menu.dataset.column)) === menu.value);
    row.hidden = !fits;
    shown += fits;
  }
  count.textContent = `${shown} of ${table.tBodies[0].rows.length}`;
}

function label(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    for (const row of table.tBodies[0].rows) {
      row.cells[column].dataset.name = head.textContent.trim();
      row.cells[column].classList.toggle("empty", value(row, column) === "");
    }
  });
}

function prepare(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const controls = document.createElement("div");
  const count = document.createElement("span");
  controls.className = "table-controls";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "filter";
  input.setAttribute("aria-label", "filter the rows by a text");
  controls.append(input);
  heads.forEach((head, column) => {
    const name = head.textContent.trim();
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(table, column));
    const words = [...new Set(rows.map((row) => value(row, column)))];
    if (words.length < 2 || words.length > MAX_WORDS) return;
    const menu = document.createElement("select");
    menu.dataset.column = column;
    menu.setAttribute("aria-label", `filter the rows by ${name}`);
    menu.add(new Option(`${name}: all`, ""));
    for (const word of words.sort(order)) if (word !== "") menu.add(new Option(word, word));
    controls.append(menu);
  });
  controls.append(count);
  controls.addEventListener("input", () => filter(table, controls, count));
  filter(table, controls, count);
  (table.closest(".pst-scrollable-table-container") || table).before(controls);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table.stacked").forEach(label);
  document.querySelectorAll("table.sortable").forEach(prepare);
});
