/** The writeup: Markdown and formulas to HTML and PDF. {@link cs336.writeup.Writeup} is the builder. */
package cs336.writeup;
