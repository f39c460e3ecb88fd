/**
 * The website of the laboratory: the executed notebooks, the writeup and the files that they link to, with an index,
 * navigation and search. Uses {@code writeup}.
 */
package cs336.site;
