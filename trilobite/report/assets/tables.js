const FIRST_ROWS = 60, SHARES = new Set(["share", "of roof", "of the roof", "MFU"]);

/** Orders cells: numbers by size, else as text; nothing is last, up (1) or down (-1). @param {Cell} a @param {Cell} b @param {number} sign @returns {number} */
function byCell(a, b, sign) {
  if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** @param {string} head @param {Cell} cell */
function cellText(head, cell) { return typeof cell === "number" && SHARES.has(head) ? percent(cell) : shown(cell); }

/** A table whose columns sort on a click, numbers to the right. @param {Table} table @returns {HTMLElement} */
function tableView(table) {
  const box = element("section", {}), body = element("tbody");
  const order = table.rows.map((_, i) => i);
  let all = table.rows.length <= FIRST_ROWS;
  const fill = () => {
    body.replaceChildren(...order.slice(0, all ? order.length : FIRST_ROWS).map((i) =>
      element("tr", {}, ...table.rows[i].map((cell, column) =>
        element("td", typeof cell === "number" || cell === null ? { class: "number" } : { title: String(cell) }, cellText(table.head[column], cell))))));
  };
  const heads = table.head.map((name, column) => {
    let falling = true;
    const head = element("th", { scope: "col" }, button(name, () => {
      const sign = falling ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      falling = !falling;
      order.sort((a, b) => byCell(table.rows[a][column], table.rows[b][column], sign));
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
