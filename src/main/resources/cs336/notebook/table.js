// Adds a search field and sorting to the tables that do not have them yet.
for (const box of document.querySelectorAll(".cs336-table:not([data-ready])")) {
  box.dataset.ready = "yes";
  const body = box.querySelector("tbody");
  const rows = () => [...body.rows];
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "search";
  search.setAttribute("aria-label", "show only rows with this text");
  search.oninput = () => {
    const wanted = search.value.toLowerCase();
    rows().forEach(row => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
  };
  box.before(search);
  const number = text => Number(text.replace(/,/g, "").replace("−", "-"));
  box.querySelectorAll("th").forEach((header, column) => {
    const sort = () => {
      const falling = header.getAttribute("aria-sort") === "ascending";
      box.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const order = falling ? -1 : 1;
      const text = row => row.cells[column].textContent;
      const sorted = rows().sort((a, b) => {
        const [x, y] = [number(text(a)), number(text(b))];
        if (isNaN(x) || isNaN(y)) {
          // A missing number is last.
          return isNaN(x) && isNaN(y) ? order * text(a).localeCompare(text(b)) : isNaN(x) ? 1 : -1;
        }
        return order * (x - y);
      });
      body.append(...sorted);
    };
    header.tabIndex = 0;
    header.style.cursor = "pointer";
    header.title = "sort";
    header.onclick = sort;
    header.onkeydown = event => { if (event.key === "Enter") { sort(); } };
  });
}
