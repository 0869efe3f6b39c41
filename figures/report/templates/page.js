"use strict";
// A line of code that is chosen, by a click or the Enter key, is marked in all panes together with the lines that belong to it.
// Headers of sortable tables become buttons. A column sorts by number or by text, what is absent always comes last, and rows
// that are equal keep the order in which they were written. Of a long table the first rows of that order are shown, and a
// button below it shows more: browsers take seconds to lay out thousands.
(() => {
  const SHOWN_AT_ONCE = 500;
  const byText = new Intl.Collator("en", { numeric: true }).compare;

  function keyOf(cell, numeric) {
    if (!numeric) return cell.textContent;
    const text = cell.dataset.value ?? cell.textContent;
    const value = text.trim() === "" ? NaN : Number(text);
    return Number.isNaN(value) ? null : value;
  }

  function compared(one, other, numeric, sign) {
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    return sign * (numeric ? one.key - other.key : byText(one.key, other.key));
  }

  function showFirst(table, count) {
    Array.from(table.tBodies[0].rows).forEach((row, place) => { row.hidden = place >= count; });
  }

  function addMoreButton(table, total) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "more";
    let shown = SHOWN_AT_ONCE;
    const update = () => {
      showFirst(table, shown);
      button.textContent = `show more (${Math.min(shown, total)} of ${total} rows)`;
      button.hidden = shown >= total;
    };
    button.addEventListener("click", () => { shown += SHOWN_AT_ONCE; update(); });
    table.parentElement.after(button);
    update();
    return update;
  }

  function sort(table, rows, headers, column) {
    const header = headers[column];
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const numeric = header.classList.contains("number");
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = rows.map((row, place) => ({ row, place, key: keyOf(row.cells[column], numeric) }));
    keyed.sort((one, other) => compared(one, other, numeric, sign) || one.place - other.place);
    table.tBodies[0].append(...keyed.map((entry) => entry.row));
    for (const other of headers) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
    document.getElementById("sorted").textContent = `sorted by ${header.textContent}, ${direction}`;
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = Array.from(table.tBodies[0].rows);
    const headers = Array.from(table.tHead.rows[0].cells);
    const update = rows.length > SHOWN_AT_ONCE ? addMoreButton(table, rows.length) : () => {};
    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        sort(table, rows, headers, column);
        update();
      });
    });
  }

  function choose(view, chosen) {
    for (const row of view.querySelectorAll("tr.chosen")) row.classList.remove("chosen");
    for (const pane of view.querySelectorAll(".pane")) {
      const rows = Array.from(pane.querySelectorAll("tr[data-place]")).filter((row) => row.dataset.place === chosen.dataset.place);
      for (const row of rows) row.classList.add("chosen");
      if (rows.length && !pane.contains(chosen)) pane.scrollTop = rows[0].offsetTop - pane.clientHeight / 3;
    }
    document.getElementById("sorted").textContent = `${chosen.dataset.place} is marked`;
  }

  for (const view of document.querySelectorAll(".code")) {
    for (const row of view.querySelectorAll("tr[data-place]")) {
      row.addEventListener("click", () => choose(view, row));
      row.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(view, row); });
    }
  }
})();
