"use strict";
// A click on a column's title sorts its table; `data-sort` has the number of a cell.
for (const table of document.querySelectorAll("table.traced")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const valueOf = (row, at) => row.cells[at].dataset.sort ?? row.cells[at].textContent;
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("button")?.parentElement;
    if (!head) return;
    const at = heads.indexOf(head);
    const isText = !head.classList.contains("number");
    const usual = isText ? "ascending" : "descending";
    const other = isText ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === usual ? other : usual;
    for (const one of heads) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => (isText ? a.localeCompare(b) : Number(a) - Number(b));
    body.append(...[...body.rows].sort((a, b) => sign * compare(valueOf(a, at), valueOf(b, at))));
  });
}
