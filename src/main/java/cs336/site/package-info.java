/**
 * The website of the laboratory: the executed notebooks, the writeup and the files that they link to, with an index,
 * navigation and search.
 *
 * <p>Read first: {@link cs336.site.Site}.
 *
 * <p>May use {@code writeup}, and the packages that it may use.
 */
package cs336.site;
