/**
 * What is shown: figures ({@link cs336.report.Charts}, {@link cs336.report.Figure}), tables
 * ({@link cs336.report.Tables}), numbers looked up in measurements ({@link cs336.report.Numbers}), and the writeup made
 * of them ({@link cs336.report.Writeup}).
 *
 * <p>All of it comes out byte for byte the same on every machine, whatever its fonts, locale or time zone.
 */
package cs336.report;
