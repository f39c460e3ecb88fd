/** JupyterLab 4, as its reader operates it. */
export class Lab {
  static cells = '.jp-CodeCell';
  static outputs = '.jp-OutputArea-output';
  static errors = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]';
  static editor = '.jp-CodeCell .cm-content';
  static code = '.jp-CodeCell .cm-scroller';
  static completions = '.jp-Completer .jp-Completer-item';
  static tooltip = '.jp-Tooltip';
  static serverClass = 'ServerApp';

  constructor(page, url, token) {
    Object.assign(this, { page, url, token });
  }

  /** Settings that keep all cells in the page, and the network and questions out of it. */
  static settings = {
    '@jupyterlab/notebook-extension/tracker.jupyterlab-settings': { windowingMode: 'none' },
    '@jupyterlab/apputils-extension/notification.jupyterlab-settings': { fetchNews: 'false', checkForUpdates: false },
    '@jupyterlab/docmanager-extension/plugin.jupyterlab-settings': { autosave: false },
  };

  async open(file) {
    await this.page.goto(`${this.url}/lab/tree/${file}?reset&token=${this.token}`);
    await this.page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell').first().waitFor({ timeout: 60_000 });
    await this.page.locator('.jp-StatusBar-TextItem', { hasText: /\| Idle/ }).first().waitFor({ timeout: 120_000 });
  }

  /** Runs an entry of a menu. */
  async menu(...path) {
    await this.page.locator('.lm-MenuBar-itemLabel', { hasText: new RegExp(`^${path[0]}$`) }).click();
    for (const label of path.slice(1)) {
      const entry = this.page.locator('.lm-Menu-itemLabel', { hasText: new RegExp(`^${label}$`) }).last();
      await entry.hover();
      await entry.click();
    }
  }

  /** Switches the theme by the menu, and returns the time it took in milliseconds. */
  async theme(name, light) {
    const begin = Date.now();
    await this.menu('Settings', 'Theme', name);
    await this.page.waitForFunction(wanted => document.body.dataset.jpThemeLight === wanted, light);
    return Date.now() - begin;
  }

  async runAll() {
    await this.menu('Run', 'Run All Cells');
  }

  async select(index) {
    await this.page.locator(Lab.cells).nth(index).locator('.jp-InputPrompt').click();
  }

  async run(index) {
    await this.select(index);
    await this.page.keyboard.press('Control+Enter');
  }

  /** Returns the prompts of the code cells: a number, "*" while a cell runs, "" before. */
  prompts() {
    return this.page.locator(`${Lab.cells} .jp-InputArea-prompt`).evaluateAll(all => all.map(p => p.textContent.replace(/[[\]: ]/g, '')));
  }

  output(index) {
    return this.page.locator(Lab.cells).nth(index).locator(Lab.outputs);
  }

  async interrupt() {
    await this.page.locator('[data-command="notebook:interrupt-kernel"]').first().click();
  }

  async restart() {
    await this.page.locator('[data-command="notebook:restart-kernel"]').first().click();
    await this.page.locator('.jp-Dialog .jp-mod-accept').click();
  }

  async save() {
    await this.page.keyboard.press('Control+s');
    await this.page.waitForTimeout(1_500);
  }

  async isTrusted() {
    return (await this.page.locator('.jp-StatusBar-TrustedItem, [title*="trusted" i]').evaluateAll(all => all.map(e => e.title).join())).match(/not|un/i) === null;
  }

  async height() {
    return this.page.locator('.jp-WindowedPanel-outer').first().evaluate(e => e.scrollHeight);
  }

  async scrollTo(y) {
    await this.page.locator('.jp-WindowedPanel-outer').first().evaluate((e, top) => { e.scrollTop = top; }, y);
  }
}
