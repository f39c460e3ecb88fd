/**
 * Jupyter widgets: controls whose changes in the notebook call Java, and results that are redrawn.
 *
 * <p>Cells call the functions of {@link cs336.notebook.widgets.Widgets}, which are imported in every cell:
 *
 * <pre>{@code
 * interact(slider("tile", 16, 128, 16), checkbox("causal"), (tile, causal) -> figure(tile, causal))
 * }</pre>
 *
 * <p>In a notebook with a widget manager, such as JupyterLab with ipywidgets' extension, the cell shows the controls
 * and the result, and calls the function after each change. Elsewhere (nbconvert, {@code ./cs336 notebooks}, pages,
 * IJava) it shows HTML controls that switch between precomputed results, or the result for the first values if there
 * are too many. The API is stable; other packages may build cells on it.
 *
 * <p>Read first: {@link cs336.notebook.widgets.Widgets} (what cells call), {@link cs336.notebook.widgets.Interaction}
 * (controls with a result), {@link cs336.notebook.widgets.Widget} (a model that both sides share),
 * {@link cs336.notebook.widgets.WidgetComms} (the messages).
 *
 * <p>May use {@code charts} and {@code units}, and the packages that they may use.
 */
package cs336.notebook.widgets;
