// Shows the sections that contain all words; those with more of them in the heading come first.
const field = document.getElementById("search");
const results = document.getElementById("results");
field.form.onsubmit = event => event.preventDefault();
field.oninput = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(word => word.length > 1);
  results.replaceChildren();
  if (words.length === 0) { return; }
  const count = text => words.filter(word => text.toLowerCase().includes(word)).length;
  const found = ENTRIES.map(entry => ({ entry, heading: count(entry[1]), all: count(entry[0] + " " + entry[1] + " " + entry[3]) }))
      .filter(found => found.all === words.length)
      .sort((a, b) => b.heading - a.heading)
      .slice(0, 20);
  if (found.length === 0) {
    const none = document.createElement("li");
    none.textContent = "No section contains all of these words.";
    results.append(none);
  }
  found.forEach(({ entry: [page, heading, address, text] }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = address;
    // The entries are escaped HTML text without tags.
    link.innerHTML = page === heading ? page : page + ": " + heading;
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
    const start = at > 0 ? text.indexOf(" ", at) + 1 : 0; // not inside of an entity
    const excerpt = document.createElement("p");
    excerpt.innerHTML = (at > 0 ? "… " : "") + text.slice(start, start + 200).replace(/&[^;]{0,8}$/, "") + " …";
    item.append(link, excerpt);
    results.append(item);
  });
};
