/**
 * Java notebooks: a Jupyter kernel whose cells run in its own JVM, and a runner that executes notebook files without
 * Jupyter. Notebooks written for this kernel also run on IJava.
 *
 * <p>Read first: {@link cs336.notebook.Evaluator} (evaluates cells with JShell), {@link cs336.notebook.JavaKernel} (the
 * Jupyter kernel around it), {@link cs336.notebook.ClientConnection} (its connection to clients),
 * {@link cs336.notebook.NotebookRunner} (executes notebook files, each in a process that runs
 * {@link cs336.notebook.NotebookWorker}), {@link cs336.notebook.Renderers} (how values are shown),
 * {@link cs336.notebook.Display} (functions that cells call), {@link cs336.notebook.Check} (checks of exercises),
 * {@link cs336.notebook.widgets} (controls that cells show).
 *
 * <p>May use {@code notebook.widgets}, {@code figures}, {@code writeup} and {@code compile}, and the packages that they
 * may use.
 */
package cs336.notebook;
