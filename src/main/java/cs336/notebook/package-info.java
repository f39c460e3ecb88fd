/**
 * Java notebooks: cells evaluated in this virtual machine, a Jupyter kernel around them, and a runner without Jupyter.
 *
 * <p>{@link cs336.notebook.Evaluator} turns a cell into a value; {@link cs336.notebook.JavaKernel} speaks to Jupyter;
 * {@link cs336.notebook.NotebookRunner} executes notebook files; {@link cs336.notebook.Renderers} says how values look;
 * {@link cs336.notebook.Display} is what a cell can call. Notebooks written for this kernel also run on IJava.
 */
package cs336.notebook;
