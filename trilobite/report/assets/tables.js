const FIRST_ROWS = 60;

/** A table whose columns sort on a click. @param {Table} table */
function tableView(table) {
  const box = element("section", {}), body = element("tbody");
  let order = table.rows.map((_, i) => i), all = table.rows.length <= FIRST_ROWS;
  const fill = () => {
    body.replaceChildren(...order.slice(0, all ? order.length : FIRST_ROWS).map((i) =>
      element("tr", {}, ...table.rows[i].map((cell, c) =>
        element("td", c === 0 ? { title: String(cell) } : {}, shown(cell))))));
  };
  const heads = table.head.map((name, column) => {
    const button = element("button", { type: "button", title: "sort" }, name);
    let falling = true;
    button.addEventListener("click", () => {
      const sign = falling ? -1 : 1;
      falling = !falling;
      order.sort((a, b) => {
        const x = table.rows[a][column], y = table.rows[b][column];
        return typeof x === "number" && typeof y === "number" ? sign * (x - y) : sign * String(x).localeCompare(String(y));
      });
      fill();
    });
    return element("th", { scope: "col" }, button);
  });
  fill();
  box.append(element("h2", {}, table.title));
  if (table.note) box.append(element("p", { class: "note" }, table.note));
  box.append(element("div", { class: "scroll", tabindex: "0" },
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)));
  if (!all) {
    const more = element("button", { type: "button" }, `all ${table.rows.length.toLocaleString("en")} rows`);
    more.addEventListener("click", () => { all = true; fill(); more.remove(); });
    box.append(more);
  }
  return box;
}
