// Lets the controls of each interaction select one of its precomputed results.
for (const box of document.querySelectorAll(".cs336-interact:not([data-ready])")) {
  // The figure of a result has a script of its own.
  const data = box.querySelector(":scope > script[type='application/json']");
  if (!data) {
    continue;
  }
  box.dataset.ready = "yes";
  const { results, of } = JSON.parse(data.textContent);
  const area = box.querySelector(".cs336-interact-result");
  const fieldset = box.querySelector("fieldset");
  const inputs = [...fieldset.querySelectorAll("input, select")];
  const count = input =>
    input.type === "checkbox" ? 2 : input.type === "range" ? Number(input.max) + 1 : input.options.length;
  const selected = input =>
    input.type === "checkbox" ? Number(input.checked) : input.type === "range" ? Number(input.value) : input.selectedIndex;
  const show = () => {
    let combination = 0;
    for (const input of inputs) {
      combination = combination * count(input) + selected(input);
      if (input.type === "range") {
        const text = input.dataset.labels.split("|")[selected(input)];
        input.setAttribute("aria-valuetext", text);
        input.parentElement.querySelector("output").textContent = text;
      }
    }
    area.innerHTML = results[of[combination]];
    // Scripts that are inserted as HTML do not run.
    for (const script of area.querySelectorAll("script")) {
      const copy = document.createElement("script");
      copy.type = script.type;
      copy.textContent = script.textContent;
      script.replaceWith(copy);
    }
  };
  inputs.forEach(input => { input.oninput = show; });
  fieldset.disabled = false;
}
