/** The classic notebook, version 6. */
export class Classic {
  static cells = '.code_cell';
  static outputs = '.output_area > *:not(.prompt)';
  static errors = '.output_error';
  static editor = '.code_cell .CodeMirror';
  static code = '.code_cell .CodeMirror-hscrollbar';
  static completions = '#complete option, #complete .introspection';
  static tooltip = '#tooltip:visible';
  static serverClass = 'NotebookApp';
  static settings = {};

  constructor(page, url, token) {
    Object.assign(this, { page, url, token });
  }

  async open(file) {
    await this.page.goto(`${this.url}/notebooks/${file}?token=${this.token}`);
    await this.page.waitForFunction(() => window.Jupyter?.notebook?.kernel?.is_connected?.() && Jupyter.notebook.get_cells().length > 0,
      null, { timeout: 90_000 });
    await this.page.evaluate(() => Jupyter.notebook.set_autosave_interval(0));
    await this.page.waitForFunction(() => !document.querySelector('.kernel_busy_icon, #kernel_indicator_icon.kernel_busy_icon'), null, { timeout: 90_000 });
  }

  async runAll() {
    await this.page.evaluate(() => Jupyter.notebook.execute_all_cells());
  }

  async select(index) {
    await this.page.evaluate(n => Jupyter.notebook.select(Jupyter.notebook.get_cells().findIndex((c, i, all) =>
      c.cell_type === 'code' && all.slice(0, i).filter(x => x.cell_type === 'code').length === n)), index);
  }

  async run(index) {
    await this.select(index);
    await this.page.evaluate(() => Jupyter.notebook.execute_cells([Jupyter.notebook.get_selected_index()]));
  }

  prompts() {
    return this.page.locator(`${Classic.cells} .input_prompt`).evaluateAll(all => all.map(p => p.textContent.replace(/^In|[[\]:\s]/g, '')));
  }

  output(index) {
    return this.page.locator(Classic.cells).nth(index).locator(Classic.outputs);
  }

  async interrupt() {
    await this.page.evaluate(() => Jupyter.notebook.kernel.interrupt());
  }

  async restart() {
    await this.page.evaluate(() => Jupyter.notebook.kernel.restart());
  }

  async save() {
    await this.page.evaluate(() => Jupyter.notebook.save_notebook());
  }

  async isTrusted() {
    return this.page.evaluate(() => Jupyter.notebook.trusted);
  }

  async height() {
    return this.page.locator('#site').evaluate(e => e.scrollHeight);
  }

  async scrollTo(y) {
    await this.page.locator('#site').evaluate((e, top) => { e.scrollTop = top; }, y);
  }
}
