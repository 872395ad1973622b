// Sorts and filters the tables of class `atlas-table`. No dependency, no request; without it all rows are still there.
// The state lives in the address, e.g. `#sort=speedup&order=ascending&text=eagle&class=model_centric&verdict=exact`;
// `table=ID` limits the sorting to one table.
(() => {
  "use strict";
  const tables = [...document.querySelectorAll("table.atlas-table")].map(prepare);
  const form = document.querySelector("form.atlas-filter");
  const status = document.querySelector(".atlas-shown");
  const state = readState();

  function prepare(element) {
    const body = element.tBodies[0];
    const rows = [...body.rows].filter((row) => row.cells.length > 1);
    const heads = [...element.tHead.rows[0].cells];
    const table = { element, body, rows, heads };
    heads.forEach((head) => addButton(table, head));
    return table;
  }

  function addButton(table, head) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "atlas-sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = nextOrder(head);
      sort(table, head.dataset.key, order);
      const only = table.element.id;
      Object.assign(state, order ? { sort: head.dataset.key, order, table: only } : { sort: "", order: "", table: "" });
      writeState();
    });
  }

  // First click: the column's own direction; second: the other one; third: the order that the page came with.
  function nextOrder(head) {
    const first = head.dataset.first || "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    if (now === first) return second;
    return now === second ? "" : first;
  }

  function sort(table, key, order) {
    const column = table.heads.findIndex((head) => head.dataset.key === key);
    if (column < 0) return;
    table.heads.forEach((head) => head.removeAttribute("aria-sort"));
    let rows = table.rows;
    if (order) {
      table.heads[column].setAttribute("aria-sort", order);
      const numeric = table.heads[column].classList.contains("number");
      const sign = order === "ascending" ? 1 : -1;
      const keyed = rows.map((row) => ({ row, value: valueOf(row.cells[column], numeric) }));
      keyed.sort((a, b) => compare(a.value, b.value, sign));
      rows = keyed.map((entry) => entry.row);
    }
    table.body.append(...rows);
  }

  function valueOf(cell, numeric) {
    if (cell.dataset.missing) return null;
    const text = cell.dataset.sort ?? cell.textContent.trim();
    return numeric ? Number(text) : text;
  }

  // Missing values come last in either direction; equal ones keep the page's order.
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number") return sign * (a - b);
    return sign * a.localeCompare(b, "en", { numeric: true, sensitivity: "base" });
  }

  function filter() {
    const words = (state.text || "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    let total = 0;
    for (const row of tables.flatMap((table) => table.rows)) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word))
        && (!state.class || row.dataset.class === state.class)
        && (!state.verdict || row.dataset.verdict === state.verdict);
      row.hidden = !fits;
      shown += fits;
      total += 1;
    }
    if (status) status.textContent = `${shown} of ${total} rows shown`;
  }

  function readState() {
    const parameters = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    return Object.fromEntries(parameters);
  }

  function writeState() {
    const set = Object.entries(state).filter(([, value]) => value);
    const hash = `#${new URLSearchParams(set)}`;
    if (set.length || location.hash.includes("=")) history.replaceState(null, "", hash);
  }

  function applySort() {
    const chosen = tables.filter((table) => !state.table || table.element.id === state.table);
    if (state.sort) {
      chosen.forEach((table) => {
        const head = table.heads.find((candidate) => candidate.dataset.key === state.sort);
        if (head) sort(table, state.sort, state.order || head.dataset.first || "ascending");
      });
    }
  }

  function startForm() {
    form.hidden = false;
    for (const field of form.querySelectorAll("[name]")) {
      field.value = state[field.name] || "";
      field.addEventListener("input", () => {
        state[field.name] = field.value;
        filter();
        writeState();
      });
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => {
      Object.assign(state, { text: "", class: "", verdict: "" });
      filter();
      writeState();
    });
  }

  // The search index is fetched, which browsers refuse on pages from disk: no box that cannot answer.
  if (location.protocol === "file:") document.documentElement.classList.add("atlas-from-disk");
  if (form) startForm();
  applySort();
  if (form) filter();
})();
