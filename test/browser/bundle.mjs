// Bundles JupyterLab with the widget manager from its npm packages, for machines that have no JupyterLab of pip or conda.
//   node bundle.mjs TARGET        in the folder that holds package.json and node_modules
import { build } from 'esbuild';
import fs from 'node:fs';
import path from 'node:path';

/** The widget manager loads its controls by webpack's require.ensure, which esbuild does not know. */
const controlsOnDemand = {
  name: 'controls on demand',
  setup({ onLoad }) {
    onLoad({ filter: /jupyterlab-manager[\\/]lib[\\/]plugin\.js$/ }, ({ path: file }) => {
      const source = fs.readFileSync(file, 'utf8');
      const loaded = source.replace(/return new Promise\(\(resolve, reject\) => \{\s*require\.ensure\(\['@jupyter-widgets\/controls'\][\s\S]*?'@jupyter-widgets\/controls'\);\s*\}\);/,
        "return import('@jupyter-widgets/controls');");
      if (loaded === source) {
        throw new Error('the widget manager does not load its controls by require.ensure any more');
      }
      return { contents: loaded, loader: 'js' };
    });
  },
};

const target = path.resolve(process.argv[2]);
const names = Object.keys(read('package.json').dependencies);
const metadata = new Map(names.map(name => [name, read(`node_modules/${name}/package.json`)]));
const extensions = names.filter(name => metadata.get(name).jupyterlab?.extension);
const mimeExtensions = names.filter(name => metadata.get(name).jupyterlab?.mimeExtension);
const styles = names.filter(name => fs.existsSync(`node_modules/${name}/style/index.js`));

/** SVG is text to programs, and a data URL to style sheets. */
const imagesOfStyleSheets = {
  name: 'images of style sheets',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.svg$/ }, ({ kind, path: file, resolveDir }) =>
      kind === 'url-token' ? { path: path.resolve(resolveDir, file), namespace: 'image' } : undefined);
    onLoad({ filter: /.*/, namespace: 'image' }, ({ path: file }) => ({ contents: fs.readFileSync(file), loader: 'dataurl' }));
  },
};

/** Style sheets name packages with a tilde, which is webpack's syntax. */
const packagesOfStyleSheets = {
  name: 'packages of style sheets',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^~/ }, ({ kind, path: name, resolveDir }) => resolve(name.slice(1), { kind, resolveDir }));
  },
};

fs.rmSync(target, { recursive: true, force: true });
fs.mkdirSync(path.join(target, 'templates'), { recursive: true });
await bundle({ stdin: { contents: application(), resolveDir: process.cwd() }, outfile: path.join(target, 'static/lab.js') });
for (const name of extensions) {
  const { themePath, schemaDir } = metadata.get(name).jupyterlab;
  if (themePath) {
    await bundle({ entryPoints: [`node_modules/${name}/${themePath}`], outfile: path.join(target, 'themes', name, 'index.css') });
  }
  if (schemaDir) {
    const schemas = path.join(target, 'schemas', name);
    fs.mkdirSync(schemas, { recursive: true });
    for (const file of fs.readdirSync(path.join('node_modules', name, schemaDir)).filter(file => file.endsWith('.json'))) {
      const schema = read(path.join('node_modules', name, schemaDir, file));
      fs.writeFileSync(path.join(schemas, file), JSON.stringify(schema, (key, value) => choices(value)));
    }
    fs.copyFileSync(`node_modules/${name}/package.json`, path.join(schemas, 'package.json.orig'));
  }
}
fs.writeFileSync(path.join(target, 'templates/index.html'), page());
fs.writeFileSync(path.join(target, 'version'), metadata.get('@jupyterlab/application').version);

function read(file) {
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}

/** Writes a choice of constants as an enum, because the JSON schemas of Debian's server have no constants. */
function choices(schema) {
  if (!Array.isArray(schema?.oneOf) || !schema.oneOf.every(choice => 'const' in choice)) {
    return schema;
  }
  const { oneOf, ...rest } = schema;
  return { ...rest, enum: oneOf.map(choice => choice.const) };
}

/** The program that starts JupyterLab with all extensions of package.json. */
function application() {
  const list = packages => `[${packages.map(name => `import(${JSON.stringify(name)})`).join(', ')}]`;
  return `
    ${styles.map(name => `import ${JSON.stringify(`${name}/style/index.js`)};`).join('\n')}
    import { PluginRegistry } from '@lumino/coreutils';
    import { JupyterLab } from '@jupyterlab/application';
    import { IServiceManager } from '@jupyterlab/services/lib/tokens.js';

    const plugins = async modules => (await Promise.all(modules)).flatMap(module => module.default);
    const extensions = await plugins(${list(extensions)});
    const mimeExtensions = await plugins(${list(mimeExtensions)});
    const pluginRegistry = new PluginRegistry();
    pluginRegistry.registerPlugins(extensions);
    const lab = new JupyterLab({
      pluginRegistry,
      serviceManager: await pluginRegistry.resolveOptionalService(IServiceManager),
      mimeExtensions,
      disabled: { matches: [], patterns: [] },
      deferred: { matches: [], patterns: [] },
      availablePlugins: [...extensions, ...mimeExtensions].map(plugin => ({ ...plugin, requires: plugin.requires ?? [],
        optional: plugin.optional ?? [], provides: plugin.provides ?? null, enabled: true })),
    });
    await lab.start({ bubblingKeydown: true });
  `;
}

/** The page that loads the program; jupyterlab_server fills in the configuration. */
function page() {
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>JupyterLab</title>
  <link rel="stylesheet" href="{{ page_config.fullStaticUrl }}/lab.css">
  {% set config = page_config.copy() %}{% set _ = config.update(baseUrl=base_url, wsUrl=ws_url) %}
  <script id="jupyter-config-data" type="application/json">{{ config | tojson }}</script>
  <script type="module" src="{{ page_config.fullStaticUrl }}/lab.js"></script>
</head>
<body></body>
</html>
`;
}

async function bundle(options) {
  await build({
    bundle: true,
    format: 'esm',
    minify: true,
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis', __dirname: '"/"' },
    loader: { '.svg': 'text', '.md': 'text', '.raw': 'text', '.ttf': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.eot': 'dataurl', '.png': 'dataurl', '.gif': 'dataurl' },
    plugins: [controlsOnDemand, imagesOfStyleSheets, packagesOfStyleSheets],
    ...options,
  });
}
