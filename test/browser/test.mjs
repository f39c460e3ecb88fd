// The checks of test/browser/run:  node test.mjs PROJECT lab|notebook [names]
import { chromium } from 'playwright-core';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Classic } from './classic.mjs';
import { Kernel } from './kernel.mjs';
import { Lab } from './lab.mjs';

const [project, frontEndName, ...names] = process.argv.slice(2);
const FrontEnd = frontEndName === 'lab' ? Lab : Classic;
const results = path.join(project, 'target/browser');
const widths = [1280, 1600];
const phone = 390;
const paper = 642; // A4 without its margins, in CSS pixels
const startLimit = 2_000;
const completionLimit = 150;
const named = functions => functions.map(part => [part.name, part]);
const parts = new Map([
  ...named([start, interrupt, insight, values, times]),
  ...['00', '01', '02', '08', '11'].map(prefix => [prefix, () => notebook(prefix)]),
  ...named([newcomer, saving, untrusted, dark, nbconvert, site]),
]);
const chosen = names.length ? names : [...parts.keys()];
const unknown = chosen.filter(name => !parts.has(name));
if (unknown.length) {
  console.error(`test/browser: unknown part: ${unknown}; parts are ${[...parts.keys()].sort().join(' ')}`);
  process.exit(2);
}

const count = { passed: 0, failed: 0, skipped: 0 };
const token = 'browser-test';
const copies = path.join(results, 'notebooks');
if (!names.length) {
  fs.rmSync(results, { recursive: true, force: true });
}
fs.mkdirSync(copies, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CS336_BROWSER, args: ['--no-sandbox'] });
let server;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => Promise.resolve(server?.end()).then(() => process.exit(1)));
}
try {
  for (const name of chosen) {
    try {
      await parts.get(name)();
    } catch (e) {
      check(`${name}: ends`, false, e.message.split('\n').slice(0, 3).join(' '));
      for (const page of browser.contexts().flatMap(context => context.pages())) {
        await screenshot(page, `${name}-failed`).then(() => page.close(), () => {});
      }
    }
  }
} finally {
  await browser.close();
  if (server) {
    await server.end();
  }
}
console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed ? 1 : 0);

/** Reports a check. */
function check(what, holds, detail = '') {
  count[holds ? 'passed' : 'failed']++;
  console.log(`${holds ? 'pass' : 'FAIL'}  ${what}${detail === '' ? '' : `: ${detail}`}`);
}

function skip(what, why) {
  count.skipped++;
  console.log(`skip  ${what}: ${why}`);
}

/** Starts Jupyter with `./cs336 lab`, or returns the running one. */
async function jupyter() {
  if (server) {
    return server;
  }
  const settings = path.join(results, 'settings');
  for (const [file, content] of Object.entries(FrontEnd.settings)) {
    fs.mkdirSync(path.dirname(path.join(settings, file)), { recursive: true });
    fs.writeFileSync(path.join(settings, file), JSON.stringify(content));
  }
  const port = await freePort();
  const log = fs.openSync(path.join(results, 'jupyter.log'), 'w');
  const options = ['lab', '--no-browser', '--allow-root', `--port=${port}`, `--${FrontEnd.serverClass}.token=${token}`, '-y',
    `--LabApp.user_settings_dir=${settings}`, `--LabApp.workspaces_dir=${path.join(results, 'workspaces')}`];
  // A group of its own, so that all of it can be ended.
  const child = spawn(path.join(project, 'cs336'), options, { cwd: project, stdio: ['ignore', log, log], detached: true });
  const ended = new Promise(resolve => child.on('exit', resolve));
  server = {
    url: `http://localhost:${port}`,
    async end() {
      process.kill(-child.pid, 'SIGTERM');
      await Promise.race([ended, pause(10_000)]);
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // All of it has ended.
      }
    },
  };
  const giveUp = Date.now() + 300_000;
  while (!(await fetch(`${server.url}/api/status?token=${token}`).then(r => r.ok, () => false))) {
    if (Date.now() > giveUp || child.exitCode !== null) {
      throw new Error(`./cs336 lab does not start; see ${path.join(results, 'jupyter.log')}`);
    }
    await pause(300);
  }
  return server;
}

function freePort() {
  return new Promise(resolve => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

function pause(ms) {
  return new Promise(resolve => setTimeout(resolve, ms));
}

/** Opens a copy of a notebook, so that the repository stays unchanged. */
async function open(file, width = widths[0]) {
  const { url } = await jupyter();
  const page = await browser.newPage({ viewport: { width, height: 1_000 } });
  page.setDefaultTimeout(30_000);
  const frontEnd = new FrontEnd(page, url, token);
  await frontEnd.open(path.relative(project, path.join(copies, file)));
  return frontEnd;
}

/** Shuts down the kernels that notebooks have left. The list fails if one of them ends at this moment. */
async function close(frontEnd) {
  await frontEnd.page.close();
  const kernels = await request('GET', 'kernels').catch(() => request('GET', 'kernels'));
  await Promise.all(kernels.map(kernel => request('DELETE', `kernels/${kernel.id}`)));
}

async function request(method, what, body) {
  const { url } = await jupyter();
  const answer = await fetch(`${url}/api/${what}`, {
    method, headers: { Authorization: `token ${token}` }, body: body && JSON.stringify(body),
  });
  if (!answer.ok) {
    throw new Error(`${method} ${what}: ${answer.status} ${await answer.text()}`);
  }
  return answer.status === 204 ? null : answer.json();
}

/** Writes a notebook of these cells. */
function scratch(file, cells) {
  const content = {
    cells: cells.map((source, i) => ({ cell_type: 'code', id: `cell-${i}`, metadata: {}, execution_count: null, outputs: [], source })),
    metadata: { kernelspec: { display_name: 'Java (cs336)', language: 'java', name: 'cs336' } }, nbformat: 4, nbformat_minor: 5,
  };
  fs.writeFileSync(path.join(copies, file), JSON.stringify(content));
}

/** Waits until no cell runs, and returns the time it took in milliseconds. */
async function finished(frontEnd, limit, which = prompts => prompts) {
  const begin = Date.now();
  for (;;) {
    const prompts = which(await frontEnd.prompts());
    if (prompts.every(prompt => /^\d+$/.test(prompt))) {
      return Date.now() - begin;
    }
    if (Date.now() - begin > limit) {
      throw new Error(`cells still run or wait after ${limit / 1000} s: prompts ${prompts.join(' ')}`);
    }
    await pause(100);
  }
}

async function text(frontEnd, index) {
  return (await frontEnd.output(index).allInnerTexts()).join('\n').trim();
}

async function screenshot(page, name) {
  await page.screenshot({ path: path.join(results, `${name}.png`) });
}

/** Saves pictures of the whole notebook, one screen after another. */
async function screenshots(frontEnd, name) {
  const tall = 1_800;
  const { width } = frontEnd.page.viewportSize();
  await frontEnd.page.setViewportSize({ width, height: tall });
  const height = await frontEnd.height();
  const step = tall - 200;
  for (let i = 0; i * step < height; i++) {
    await frontEnd.scrollTo(i * step);
    await frontEnd.page.waitForTimeout(250);
    await screenshot(frontEnd.page, `${name}-${String(i + 1).padStart(2, '0')}`);
  }
  await frontEnd.page.setViewportSize({ width, height: 1_000 });
}

// ---- the parts

/** `./cs336 lab` opens the first notebook with the kernel of this project. */
async function start() {
  fs.rmSync(path.join(results, 'workspaces'), { recursive: true, force: true }); // notebooks that an earlier run left open
  const { url } = await jupyter();
  const page = await browser.newPage({ viewport: { width: widths[0], height: 1_000 } });
  await page.goto(`${url}/?token=${token}`);
  const heading = page.getByRole('heading', { name: '00 · Start here' }).first();
  const shown = await heading.waitFor({ timeout: 60_000 }).then(() => true, () => false);
  check('./cs336 lab opens 00-start-here', shown && page.url().includes('00-start-here'), page.url());
  const specs = (await request('GET', 'kernelspecs')).kernelspecs;
  check('the kernel is found without being installed', 'cs336' in specs || Object.values(specs).some(s => /cs336/.test(s.spec.display_name)),
    Object.values(specs).map(s => s.spec.display_name).join(', '));
  await page.waitForTimeout(1_000);
  await screenshot(page, 'start');
  await close({ page });
}

async function interrupt() {
  scratch('loop.ipynb', ['int kept = 6 * 7;\nkept', 'long turns = 0;\nwhile (true) {\n    turns++;\n}', 'kept', 'kept']);
  const frontEnd = await open('loop.ipynb');
  await frontEnd.run(0);
  await finished(frontEnd, 60_000, prompts => [prompts[0]]);
  await frontEnd.run(1);
  await frontEnd.page.waitForTimeout(2_000);
  check('a busy loop runs', (await frontEnd.prompts())[1] === '*');
  await frontEnd.interrupt();
  const time = await finished(frontEnd, 20_000, prompts => [prompts[1]]);
  check('an interrupt ends a busy loop within 3 s', time < 3_000, `${time} ms`);
  await frontEnd.run(2);
  await finished(frontEnd, 20_000, prompts => [prompts[2]]);
  check('the session goes on after an interrupt', (await text(frontEnd, 2)) === '42', await text(frontEnd, 2));
  await screenshot(frontEnd.page, 'interrupt');
  await frontEnd.restart();
  await frontEnd.page.waitForTimeout(2_500);
  await frontEnd.run(3);
  await finished(frontEnd, 30_000, prompts => [prompts[3]]);
  const after = await text(frontEnd, 3);
  check('a restart forgets the variables', /cannot find symbol/.test(after), after.split('\n')[0]);
  await screenshot(frontEnd.page, 'restart');
  await close(frontEnd);
}

/** Completion and documentation in an editor. */
async function insight() {
  scratch('insight.ipynb', ['MemoryScope', 'ModelSize.']);
  const frontEnd = await open('insight.ipynb');
  const { page } = frontEnd;
  const editor = page.locator(FrontEnd.editor);
  await editor.nth(0).click();
  await page.keyboard.press('End');
  await page.keyboard.press('Shift+Tab');
  const tooltip = page.locator(FrontEnd.tooltip);
  await tooltip.waitFor({ timeout: 15_000 }).catch(() => {});
  const shown = await tooltip.allInnerTexts();
  check('Shift+Tab on MemoryScope shows its Javadoc', /tensor/i.test(shown.join()) && /scope/i.test(shown.join()), shown.join().replace(/\s+/g, ' ').slice(0, 90));
  await screenshot(page, 'inspect');
  await page.keyboard.press('Escape');
  await editor.nth(1).click();
  await page.keyboard.press('End');
  await page.keyboard.press('Tab');
  const items = page.locator(FrontEnd.completions);
  await items.first().waitFor({ timeout: 15_000 }).catch(() => {});
  const completions = (await items.allInnerTexts()).map(item => item.replace(/\s+/g, ' '));
  check('Tab after "ModelSize." offers SMALL', completions.some(item => item.includes('SMALL')), completions.join(' | ').slice(0, 90));
  await screenshot(page, 'completion');
  await close(frontEnd);
}

/** What cells show: values, magics, errors, prints of threads, progress. */
async function values() {
  const cells = [
    ['new TransformerLM(TransformerConfig.builder().vocabSize(100).contextLength(16).dModel(32).numLayers(2).numHeads(2).dFf(64).build(), Device.best())',
      'a model is a tree with shapes and a total', /TransformerLM[\s\S]*Linear[\s\S]*parameters/],
    ['torch.ones(3, 4)', 'a small tensor shows all its values', /values\s+(\[*1\.000[\],\s]*){12}/],
    ['torch.ones(2, 3).matmul(torch.ones(2, 3))', 'an error of libtorch has no C++ frames', /^(?![\s\S]*(Exception raised from|frame #))[\s\S]*cannot be multiplied/],
    ['System.exit(3)', 'System.exit is an exception', /System\.exit|exit/],
    ['%time Thread.sleep(10);', '%time shows a time', /\d\s*(ms|s)\b/],
    ['!echo shown by a shell', 'a shell command shows its output', /^shown by a shell/],
    ['%matplotlib inline', 'an unknown magic is named', /matplotlib/],
    ['for (int step : Progress.of(20, "training")) {\n    Thread.sleep(5);\n}', 'Progress shows one line', /^[^\n]*training[^\n]*20[^\n]*$/],
    ['new Thread(() -> {\n    try {\n        Thread.sleep(1_000);\n    } catch (InterruptedException e) {\n    }\n    System.out.println("printed later");\n}).start();',
      'a print of a thread after the end of its cell is shown', /printed later/],
  ];
  scratch('values.ipynb', cells.map(([source]) => source));
  const frontEnd = await open('values.ipynb');
  for (let i = 0; i < cells.length; i++) {
    await frontEnd.run(i);
    await finished(frontEnd, 60_000, prompts => [prompts[i]]);
  }
  await frontEnd.page.waitForTimeout(3_000);
  for (const [i, [, what, shows]] of cells.entries()) {
    const shown = await text(frontEnd, i);
    check(what, shows.test(shown), shown.replace(/\s+/g, ' ').slice(0, 120));
  }
  await screenshots(frontEnd, 'values');
  await close(frontEnd);
}

/** Times of the kernel, through Jupyter's server. The least of three tries counts, because other programs may disturb one. */
async function times() {
  let first = Infinity;
  let completions = {};
  for (let i = 0; i < 3; i++) {
    const begin = performance.now();
    const kernel = await Kernel.start((await jupyter()).url, token);
    await kernel.ask('execute_request', execution('6 * 7'), 'execute_result');
    first = Math.min(first, Math.round(performance.now() - begin));
    if (i === 2) {
      await kernel.ask('execute_request', execution('Tensor someTensor = torch.zeros(2, 2);'), 'execute_reply');
      completions = await completionTimes(kernel);
    }
    await kernel.end();
  }
  checkTime('kernel start to first result', first, startLimit);
  for (const [code, { all, matches }] of Object.entries(completions)) {
    const least = Math.min(...all);
    check(`completion of "${code}" finds something`, matches > 0, `${matches} matches`);
    checkTime(`completion of "${code}"`, least, completionLimit);
  }
}

/** Checks a time in milliseconds, unless other programs use the processors. */
function checkTime(what, time, limit) {
  const load = os.loadavg()[0];
  const cores = os.availableParallelism();
  if (time > limit && load > 1.5 * cores) {
    skip(`${what} within ${limit} ms`, `${time} ms, but the load average is ${load.toFixed(1)} on ${cores} cores`);
  } else {
    check(`${what} within ${limit} ms`, time <= limit, `${time} ms`);
  }
}

function execution(code) {
  return { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true };
}

async function completionTimes(kernel) {
  const measured = {};
  for (const code of ['Tens', 'someTensor.', 'ModelSize.', 'new TransformerC', 'TransformerConfig.builder().', 'Strategy.', 'torch.',
    'try (var scope = new MemoryScope()) {\n    someTensor.ad']) {
    const all = [];
    let matches;
    for (let i = 0; i < 3; i++) {
      const begin = performance.now();
      ({ matches } = await kernel.ask('complete_request', { code, cursor_pos: code.length }, 'complete_reply'));
      all.push(Math.round(performance.now() - begin));
    }
    measured[code.split('\n').at(-1).trim()] = { all, matches: matches.length };
  }
  return measured;
}

function fileOf(prefix) {
  return fs.readdirSync(path.join(project, 'notebooks')).find(file => file.startsWith(prefix) && file.endsWith('.ipynb'));
}

/** Runs all cells of a notebook and looks at what they show. */
async function notebook(prefix) {
  const file = fileOf(prefix);
  fs.copyFileSync(path.join(project, 'notebooks', file), path.join(copies, file));
  const frontEnd = await open(file);
  const { page } = frontEnd;
  await frontEnd.runAll();
  await page.waitForTimeout(1_000);
  const time = await finished(frontEnd, 900_000);
  await page.waitForTimeout(1_500);
  check(`${prefix}: all cells run`, true, `${(await frontEnd.prompts()).length} cells in ${(time / 1000).toFixed(1)} s`);
  const errors = await page.locator(FrontEnd.errors).allInnerTexts();
  check(`${prefix}: no cell fails`, errors.length === 0, errors.map(e => e.split('\n')[0]).join(' | '));
  for (const width of widths) {
    await page.setViewportSize({ width, height: 1_000 });
    await page.waitForTimeout(1_000);
    await look(frontEnd, `${prefix} at ${width}`);
    await screenshots(frontEnd, `${prefix}-${width}`);
  }
  await hover(frontEnd, prefix);
  if (prefix === '02') {
    await flameGraph(frontEnd);
  } else {
    await slider(frontEnd, prefix);
  }
  await frontEnd.save();
  await close(frontEnd);
}

/** Checks that tables are tables, and that figures lie within their cells. */
async function look(frontEnd, what) {
  const seen = await frontEnd.page.evaluate(({ outputs, code }) => {
    const areas = [...document.querySelectorAll(outputs)];
    const tables = areas.flatMap(area => [...area.querySelectorAll('table')].map(table => ({ area, table })));
    const figures = areas.flatMap(area => [...area.querySelectorAll('img, svg, iframe')]
      .filter(figure => figure.offsetParent !== null || figure instanceof SVGElement)
      .filter(figure => !figure.closest('svg svg, details:not([open])') && figure.getBoundingClientRect().width >= 100)
      .map(figure => ({ area, figure })));
    const cut = figures.filter(({ area, figure }) => {
      const box = figure.getBoundingClientRect();
      const cell = area.getBoundingClientRect();
      return box.left < cell.left - 1 || box.right > cell.right + 1 || box.right > innerWidth;
    });
    const empty = figures.filter(({ figure }) => figure.getBoundingClientRect().height < 40
      || (figure.tagName === 'IMG' && (!figure.complete || figure.naturalWidth === 0)));
    const wideCode = [...document.querySelectorAll(code)].filter(editor => editor.scrollWidth > editor.clientWidth + 1);
    const wide = areas.filter(area => area.scrollWidth > area.clientWidth + 1);
    // JupyterLab breaks long lines of results, also within a word.
    const broken = areas.flatMap(area => [...area.querySelectorAll('pre')]).filter(pre => {
      const before = pre.style.whiteSpace;
      pre.style.whiteSpace = 'pre';
      const long = pre.scrollWidth > pre.clientWidth + 1;
      pre.style.whiteSpace = before;
      return long;
    });
    return {
      tables: tables.length,
      bad: tables.filter(({ table }) => table.rows.length < 2 || table.getBoundingClientRect().height < 20).length,
      raw: areas.filter(area => /<table|&lt;table/.test(area.innerText)).length,
      figures: figures.length,
      cut: cut.map(({ figure }) => figure.alt || figure.title || figure.tagName),
      empty: empty.map(({ figure }) => figure.alt || figure.title || figure.tagName),
      wideCode: wideCode.map(editor => editor.innerText.trim().slice(0, 60).replace(/\s+/g, ' ')),
      wide: wide.map(area => area.innerText.trim().slice(0, 60).replace(/\s+/g, ' ')),
      broken: broken.map(pre => pre.innerText.trim().slice(0, 60).replace(/\s+/g, ' ')),
    };
  }, { outputs: FrontEnd.outputs, code: FrontEnd.code });
  check(`${what}: no code scrolls sideways`, seen.wideCode.length === 0, seen.wideCode.join(' | '));
  check(`${what}: tables are rendered`, seen.bad === 0 && seen.raw === 0, `${seen.tables} tables`);
  check(`${what}: figures are shown`, seen.empty.length === 0, `${seen.figures} figures ${seen.empty.join(' | ')}`.trim());
  check(`${what}: figures are not cut off`, seen.cut.length === 0, seen.cut.join(' | '));
  check(`${what}: no output scrolls sideways`, seen.wide.length === 0, seen.wide.join(' | '));
  check(`${what}: no line of a text result is broken`, seen.broken.length === 0, seen.broken.join(' | '));
}

/** Moves the pointer over the figures until one shows a value, and drags over that one, which zooms. */
async function hover(frontEnd, prefix) {
  const { page } = frontEnd;
  const figures = page.locator(`${FrontEnd.outputs} .cs336-live`);
  const shown = new Set();
  for (let i = 0; i < await figures.count(); i++) {
    await figures.nth(i).scrollIntoViewIfNeeded();
    const { x, y, width, height } = await figures.nth(i).boundingBox();
    for (let step = 0; step < 60; step++) {
      await page.mouse.move(x + width * (0.1 + 0.8 * (step % 12) / 12), y + height * (0.2 + 0.12 * Math.floor(step / 12)));
      const tip = figures.nth(i).locator('.cs336-tip');
      if (await tip.isVisible()) {
        shown.add(await tip.innerText());
        break;
      }
    }
    if (shown.size === 1) {
      await screenshot(page, `${prefix}-hover`);
      await page.mouse.move(x + width * 0.3, y + height * 0.3);
      await page.mouse.down();
      await page.mouse.move(x + width * 0.6, y + height * 0.6, { steps: 4 });
      await page.mouse.up();
      check(`${prefix}: a drag over a figure zooms in`, await figures.nth(i).locator('button').isVisible());
      const ticks = await figures.nth(i).locator('div > span').allInnerTexts();
      check(`${prefix}: a zoomed figure has labels at its axes`, ticks.length > 1 && new Set(ticks).size > 1, ticks.join(' '));
      await screenshot(page, `${prefix}-zoomed`);
      await figures.nth(i).locator('button').click();
    }
  }
  const texts = [...shown].map(text => text.replace(/\s+/g, ' '));
  const measured = texts.filter(text => /H200, commits? [0-9a-f]{7}/.test(text));
  if (prefix === '01' || prefix === '11') {
    // All figures of 01 are of stored measurements. In 11 these are all but the trace and the model of buckets.
    check(`${prefix}: figures of stored measurements name machine and commit`,
      measured.length >= texts.length - (prefix === '11' ? 2 : 0), `${measured.length} of ${texts.length}, ${measured.at(-1)}`);
  }
  check(`${prefix}: figures show values at the pointer`, shown.size > 0, `${texts.length} of ${await figures.count()}: ${texts[0]}`);
}

/** Looks at a frame of the first flame graph, zooms into it, and searches. */
async function flameGraph(frontEnd) {
  const { page } = frontEnd;
  const element = page.locator(`${FrontEnd.outputs} iframe.cs336-figure`).first();
  await element.scrollIntoViewIfNeeded();
  const graph = element.contentFrame();
  const widths = () => graph.locator('#live rect').evaluateAll(all => all.map(rect => Math.round(rect.getBoundingClientRect().width)));
  const said = () => graph.locator('svg > g').last().innerHTML();
  const before = { widths: await widths(), said: await said() };
  const whole = before.widths[0];
  const narrow = before.widths.findIndex(width => width > 20 && width < 0.8 * whole);
  await graph.locator('#live g').nth(narrow).hover();
  check('02: the flame graph names the frame under the pointer', await said() !== before.said);
  await graph.locator('#live g').nth(narrow).click();
  // The frame and those that called it are now as wide as the whole graph.
  const full = all => all.filter(width => width >= whole - 1).length;
  const zoomed = await widths();
  check('02: a click on a frame zooms in', full(zoomed) > full(before.widths), `${before.widths[narrow]} px, then ${full(zoomed)} frames of ${whole} px`);
  await graph.locator('input').fill('linear');
  const colours = await graph.locator('#live rect').evaluateAll(all => new Set(all.map(rect => rect.getAttribute('fill'))).size);
  check('02: a search marks frames', colours > 1 && await said() !== before.said, `${colours} colours`);
  await screenshot(page, '02-flame-graph');
  await graph.locator('input').press('Escape');
  check('02: Escape shows the whole flame graph', JSON.stringify(await widths()) === JSON.stringify(before.widths));
}

/** Moves the first slider of a notebook, if there is one. */
async function slider(frontEnd, prefix) {
  const { page } = frontEnd;
  const views = page.locator('.jupyter-widgets');
  if (await views.count() === 0) {
    skip(`${prefix}: a slider can be moved`, 'no widget is in the page');
    return;
  }
  const handle = page.locator('.widget-slider .noUi-handle, .jupyter-widgets input[type=range]').first();
  if (await handle.count() === 0) {
    skip(`${prefix}: a slider can be moved`, `no slider among ${await views.count()} widgets`);
    return;
  }
  const cell = page.locator(FrontEnd.cells).filter({ has: page.locator('.widget-slider') }).first();
  const state = async () => ({
    readout: await cell.locator('.widget-readout').first().innerText().catch(() => ''),
    output: await cell.locator(FrontEnd.outputs).evaluateAll(all => all.map(e => e.innerText + [...e.querySelectorAll('img')].map(i => i.src).join()).join()),
  });
  const before = await state();
  await handle.scrollIntoViewIfNeeded();
  await handle.focus();
  await page.keyboard.press('ArrowRight');
  await page.waitForTimeout(2_500);
  const after = await state();
  check(`${prefix}: a slider shows its new value`, before.readout !== after.readout, `${before.readout} → ${after.readout}`);
  const withoutReadout = ({ readout, output }) => output.replace(readout, '');
  check(`${prefix}: a slider changes the output`, withoutReadout(before) !== withoutReadout(after));
  check(`${prefix}: no cell fails after a slider moved`, await page.locator(FrontEnd.errors).count() === 0);
  await screenshot(page, `${prefix}-slider`);
}

/** What README.md tells a newcomer to try in JupyterLab: to change a cell, and to draw a figure again. */
async function newcomer() {
  const changes = [
    ['00', 'torch.randn', source => source.replace('1000, 96', '4, 4'), 'newcomer: a changed cell shows all values of a small tensor',
      shown => (shown.match(/-?\d\.\d+/g) ?? []).length >= 16],
    ['01', 'Figure synchronization', source => source.replace('"small"', '"large"').split('\n').filter((line, i) => i !== 1).join('\n'),
      'newcomer: a changed figure shows the large model', (shown, html) => html.includes('of the large model')],
  ];
  for (const [prefix, of, change, what, shows] of changes) {
    const file = fileOf(prefix);
    fs.copyFileSync(path.join(project, 'notebooks', file), path.join(copies, `new-${file}`));
    const cells = JSON.parse(fs.readFileSync(path.join(project, 'notebooks', file), 'utf8')).cells.filter(cell => cell.cell_type === 'code');
    const index = cells.findIndex(cell => cell.source.join('').includes(of));
    const frontEnd = await open(`new-${file}`);
    const { page } = frontEnd;
    await frontEnd.run(0);
    await finished(frontEnd, 60_000, prompts => [prompts[0]]);
    await page.locator(FrontEnd.editor).nth(index).click();
    await page.keyboard.press('Control+a');
    await page.keyboard.insertText(change(cells[index].source.join('')));
    await page.keyboard.press('Shift+Enter');
    await finished(frontEnd, 60_000, prompts => [prompts[index]]);
    await page.waitForTimeout(1_000);
    const html = (await frontEnd.output(index).evaluateAll(all => all.map(output => output.innerHTML))).join();
    const shown = await text(frontEnd, index);
    check(what, shows(shown, html), shown.replace(/\s+/g, ' ').slice(0, 120));
    await screenshot(page, `newcomer-${prefix}`);
    await close(frontEnd);
  }
}

/** A notebook that is opened and saved has no difference for Git. */
async function saving() {
  const different = [];
  for (const prefix of ['00', '13']) {
    const file = fileOf(prefix);
    const copy = path.join(copies, `saved-${file}`);
    fs.copyFileSync(path.join(project, 'notebooks', file), copy);
    const before = fs.statSync(copy).mtimeMs;
    const frontEnd = await open(`saved-${file}`);
    await frontEnd.select(0);
    await frontEnd.save();
    check(`saving: ${file} was written`, fs.statSync(copy).mtimeMs > before);
    const [was, is] = [path.join(project, 'notebooks', file), copy].map(f => fs.readFileSync(f, 'utf8').split('\n'));
    different.push(...is.filter((line, i) => line !== was[i]).slice(0, 3));
    await close(frontEnd);
  }
  check('saving: an unchanged notebook stays the same, byte for byte', different.length === 0, different.join(' | '));
}

/** An executed notebook from somebody else: scripts and styles are removed, figures are still there. */
async function untrusted() {
  const file = fileOf('08');
  if (!fs.existsSync(path.join(copies, file))) {
    skip('untrusted copy', 'it is a copy of 08 after part 08');
    return;
  }
  const content = JSON.parse(fs.readFileSync(path.join(copies, file), 'utf8'));
  content.metadata.copied = true;
  fs.writeFileSync(path.join(copies, 'untrusted.ipynb'), JSON.stringify(content));
  const frontEnd = await open('untrusted.ipynb');
  await frontEnd.page.waitForTimeout(3_000);
  check('untrusted copy: it is not trusted', !(await frontEnd.isTrusted()));
  const pictures = content.cells.flatMap(cell => cell.outputs ?? []).filter(output => output.data?.['image/png']).length;
  const shown = await frontEnd.page.locator(`${FrontEnd.outputs} img`).evaluateAll(all => all.filter(i => i.naturalWidth > 100 && i.offsetParent).length);
  check('untrusted copy: all figures are shown', pictures > 0 && shown >= pictures, `${shown} of ${pictures}`);
  await look(frontEnd, 'untrusted copy');
  await screenshots(frontEnd, 'untrusted');
  await close(frontEnd);
}

/** Figures and tables in the dark theme. */
async function dark() {
  await jupyter();
  const file = fileOf('08');
  if (FrontEnd !== Lab || !fs.existsSync(path.join(copies, file))) {
    skip('dark theme', 'it needs JupyterLab and part 08');
    return;
  }
  const frontEnd = await open(file);
  const time = await frontEnd.theme('JupyterLab Dark', 'false');
  check('dark theme: the menu switches to it within 10 s', time < 10_000, `${time} ms`);
  const background = await frontEnd.page.locator('.jp-Notebook').evaluate(e => getComputedStyle(e).backgroundColor);
  check('dark theme: it is dark', background.match(/\d+/g).slice(0, 3).every(part => part < 60), background);
  const filtered = await frontEnd.page.locator(`${FrontEnd.outputs} .cs336-figure`).evaluateAll(all => all.every(f => getComputedStyle(f).filter !== 'none'));
  check('dark theme: figures are dark', filtered);
  await screenshots(frontEnd, 'dark-08');
  await frontEnd.theme('JupyterLab Light', 'true'); // the settings of the next run
  await close(frontEnd);
}

/** Jupyter's nbconvert and `./cs336 notebooks` show the same in a notebook without measured times. */
async function nbconvert() {
  const python = ['python3', '/usr/bin/python3'].find(p => spawnSync(p, ['-c', 'import nbconvert, nbclient, jupyter_client']).status === 0);
  if (!python) {
    skip('nbconvert shows what ./cs336 notebooks shows', 'nbconvert is missing; on Debian: apt-get install python3-nbconvert');
    return;
  }
  const file = fileOf('13');
  const folder = path.join(results, 'nbconvert');
  const run = (what, command, options, env) => {
    const { status, stderr } = spawnSync(command, options, { cwd: project, encoding: 'utf8', env: { ...process.env, ...env } });
    check(`${what} runs ${file}`, status === 0, status === 0 ? '' : stderr.trim().split('\n').slice(-3).join(' '));
  };
  run('nbconvert', python, ['-m', 'nbconvert', '--to', 'notebook', '--execute', '--ExecutePreprocessor.timeout=300', '--output-dir', folder,
    path.join('notebooks', file)], { JUPYTER_PATH: path.join(project, 'jupyter') });
  run('./cs336 notebooks', path.join(project, 'cs336'), ['notebooks', '13', '--output', path.join(folder, 'cs336')]);
  const outputs = copy => JSON.parse(fs.readFileSync(copy, 'utf8')).cells.filter(cell => cell.cell_type === 'code')
    .map(cell => JSON.stringify(normalized(cell.outputs)));
  const [theirs, ours] = [path.join(folder, file), path.join(folder, 'cs336', file)].map(outputs);
  const different = theirs.flatMap((output, i) => output === ours[i] ? [] : [`cell ${i + 1}`]);
  check('nbconvert shows what ./cs336 notebooks shows', theirs.length === ours.length && theirs.length > 20 && different.length === 0,
    different.length ? different.join(', ') : `${theirs.length} cells, ${theirs.join('').length} characters`);
}

/** Returns a part of a notebook with texts as strings and names in alphabetical order. */
function normalized(part) {
  if (Array.isArray(part)) {
    return part.every(line => typeof line === 'string') ? part.join('') : part.map(normalized);
  }
  return part && typeof part === 'object' ? Object.fromEntries(Object.keys(part).sort().map(key => [key, normalized(part[key])])) : part;
}

/** The website on a phone, its code and figures in a window on a desktop and on paper, and its search. */
async function site() {
  const root = path.join(project, 'target/site');
  if (!fs.existsSync(path.join(root, 'index.html'))) {
    skip('site', 'target/site is missing; ./cs336 report writes it');
    return;
  }
  const page = await browser.newPage({ viewport: { width: phone, height: 800 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  const pages = fs.readdirSync(root, { recursive: true }).map(String).filter(file => file.endsWith('.html')).sort();
  const scrolling = [];
  const small = [];
  for (const file of pages) {
    await page.goto(pathToFileURL(path.join(root, file)).href);
    await page.waitForTimeout(200);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > phone) {
      scrolling.push(`${file} (${width} px)`);
    }
    // Texts of figures have 12 px at their own size.
    const most = await page.evaluate(() => Math.max(0, ...[...document.querySelectorAll('figure img, .cs336-live img')]
      .filter(figure => figure.offsetParent).map(figure => figure.naturalWidth / figure.getBoundingClientRect().width)));
    if (most > 1.5) {
      small.push(`${file} (1 : ${most.toFixed(1)})`);
    }
    if (/index|^(.*\/)?(00|08|11)|writeup/.test(file)) {
      await screenshot(page, `site-${file.replace(/[/.]/g, '-')}`);
    }
  }
  check(`site: no page scrolls sideways at ${phone} px`, scrolling.length === 0, scrolling.length ? scrolling.join(', ') : `${pages.length} pages`);
  check(`site: figures are readable at ${phone} px`, small.length === 0, small.join(', '));
  await page.close();

  const desktop = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  for (const [what, media, width] of [['at 1280 px', 'screen', 1280], ['on paper', 'print', paper]]) {
    await desktop.emulateMedia({ media });
    await desktop.setViewportSize({ width, height: 800 });
    const broken = [];
    const cut = [];
    for (const file of pages.filter(name => /^\d/.test(name))) {
      await desktop.goto(pathToFileURL(path.join(root, file)).href);
      const lines = await desktop.evaluate(() => [...document.querySelectorAll('pre')].filter(pre => {
        pre.style.whiteSpace = 'pre';
        return pre.scrollWidth > pre.clientWidth + 1;
      }).length);
      const figures = await desktop.evaluate(() => [...document.images].filter(image => image.getBoundingClientRect().right > innerWidth).length);
      if (lines > 0) {
        broken.push(`${file} (${lines})`);
      }
      if (figures > 0) {
        cut.push(`${file} (${figures})`);
      }
    }
    check(`site: no line of code or text is broken ${what}`, broken.length === 0, broken.join(', '));
    check(`site: no figure is cut off ${what}`, cut.length === 0, cut.join(', '));
  }
  await desktop.emulateMedia({ media: 'screen' });
  await search(desktop, pathToFileURL(path.join(root, 'index.html')).href);
  await desktop.close();
}

/** The search of the website, with the keyboard alone. */
async function search(page, index) {
  await page.goto(index);
  await page.locator('#search').focus();
  await page.keyboard.type('nosuchword');
  const none = await page.locator('#results').innerText();
  check('site: a search without result says so', /^No section/.test(none), none);
  await page.keyboard.press('Control+a');
  await page.keyboard.type('memory parameters');
  await page.keyboard.press('Enter'); // stays on the page
  const found = await page.locator('#results a').allInnerTexts();
  check('site: a search finds sections', found.length > 0, found[0]);
  await screenshot(page, 'site-search');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(url => url.hash !== '');
  const there = await page.evaluate(() => document.getElementById(decodeURIComponent(location.hash.slice(1))) !== null);
  check('site: Tab and Enter open a section that was found', there, page.url().replace(/.*\//, ''));
}
