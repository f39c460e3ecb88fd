/**
 * Charts: reproducible SVG and PNG figures from any table.
 *
 * <p>Read {@link cs336.charts.Charts} first (kinds of charts), then {@link cs336.charts.Plot} (the builder),
 * {@link cs336.charts.Figure} (SVG and PNG output) and {@link cs336.charts.ChartStyle} (fonts, colours, sizes). Classes
 * named {@code …Panel} extend XChart's charts.
 *
 * <p>Uses no other package of the project.
 */
package cs336.charts;
