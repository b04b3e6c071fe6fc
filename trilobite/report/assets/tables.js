const FIRST_ROWS = 60;

/** Orders cells: numbers by size, nothing last, else as text. @param {Cell} a @param {Cell} b @returns {number} */
function byCell(a, b) {
  if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A table whose columns sort on a click, numbers to the right. @param {Table} table @returns {HTMLElement} */
function tableView(table) {
  const box = element("section", {}), body = element("tbody");
  const order = table.rows.map((_, i) => i);
  let all = table.rows.length <= FIRST_ROWS;
  const fill = () => {
    body.replaceChildren(...order.slice(0, all ? order.length : FIRST_ROWS).map((i) =>
      element("tr", {}, ...table.rows[i].map((cell) =>
        element("td", typeof cell === "number" || cell === null ? { class: "number" } : { title: String(cell) }, shown(cell))))));
  };
  const heads = table.head.map((name, column) => {
    let falling = true;
    const head = element("th", { scope: "col" }, button(name, () => {
      const sign = falling ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      falling = !falling;
      order.sort((a, b) => sign * byCell(table.rows[a][column], table.rows[b][column]));
      fill();
    }, { title: "sort" }));
    return head;
  });
  fill();
  box.append(element("h2", {}, table.title));
  if (table.note) box.append(element("p", { class: "note" }, table.note));
  box.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)));
  if (!all) {
    const more = button(`all ${table.rows.length.toLocaleString("en")} rows`, () => { all = true; fill(); more.remove(); });
    box.append(more);
  }
  return box;
}
