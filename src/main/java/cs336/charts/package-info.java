/**
 * Charts: from any table to a picture. {@link cs336.charts.Charts} starts a chart, {@link cs336.charts.Figure} is the
 * result.
 *
 * <p>A figure is the same byte for byte on every machine, whatever its fonts, locale or time zone. Uses no other
 * package.
 */
package cs336.charts;
