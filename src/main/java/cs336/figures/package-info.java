/** The figures of the writeup and the notebooks, one class a chapter, each from measurements to its charts. */
package cs336.figures;
