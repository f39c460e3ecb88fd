package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.InputStream;

/** The destination of the output of a running cell: a Jupyter client or an executed notebook file. */
interface FrontEnd {
    /** The streams that a cell prints to, named as in Jupyter. */
    enum CellStream {
        STDOUT,
        STDERR
    }

    /** Returns the input that a cell reads from {@code System.in}. */
    InputStream input();

    void print(CellStream stream, String text);

    void display(DisplayData data);

    /** Replaces the output with this id. */
    void updateDisplay(String id, DisplayData data);
}
