"use strict";
// Tables of hot spots, which a click on a column's title sorts.
function hotSpots(data, { element, number, linkTo, findings }) {
  const density = (count, lines) => (100 * count / lines).toFixed(1);
  const fileLink = (file) => element("a", { className: "path", href: `#view=file&file=${file}`, text: data.files[file].path });

  // The cells of a row: what is shown, and what sorts it.
  const files = data.hot.files.map(([file, lines, errors, warnings, notes]) => [
    [fileLink(file), data.files[file].path],
    ...[lines, errors, warnings, notes].map((count) => [number(count), count]),
    [density(errors + warnings, lines), (errors + warnings) / lines],
    [density(errors + warnings + notes, lines), (errors + warnings + notes) / lines],
  ]);
  const functions = data.hot.functions.map(([file, name, always, sometimes, first]) => [
    [element("a", { className: "path", href: linkTo(findings[first]), text: name }), name],
    ...[always, sometimes].map((count) => [number(count), count]),
    [fileLink(file), data.files[file].path],
  ]);

  function draw(table, rows) {
    const body = rows.map((row) => element("tr", {}, ...row.map(([shown], at) => {
      const cell = element(at ? "td" : "th", { className: typeof shown === "string" ? "number" : "" }, shown);
      if (!at) cell.scope = "row";
      return cell;
    })));
    table.querySelector("tbody").replaceChildren(...body);
    table.closest(".panel").querySelector(".empty").hidden = rows.length > 0;
    table.closest(".wide-table").hidden = rows.length === 0;
  }

  function sortable(table, rows) {
    const heads = [...table.querySelectorAll("th")];
    table.querySelector("thead").addEventListener("click", (event) => {
      const head = event.target.closest("button")?.parentElement;
      if (!head) return;
      const at = heads.indexOf(head);
      const isText = rows.length > 0 && typeof rows[0][at][1] === "string";
      const usual = isText ? "ascending" : "descending";
      const other = isText ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === usual ? other : usual;
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = ([, a], [, b]) => (isText ? a.localeCompare(b) : a - b);
      draw(table, [...rows].sort((a, b) => sign * compare(a[at], b[at])));
    });
    draw(table, rows);
  }

  sortable(document.getElementById("hot-files"), files);
  sortable(document.getElementById("hot-functions"), functions);
}
