package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.InputStream;

/** Where the output of a running cell goes: a Jupyter client, or a notebook file being executed. */
interface FrontEnd {
    /** The two streams a cell prints to, under the names that Jupyter gives them. */
    enum CellStream {
        STDOUT,
        STDERR
    }

    /** What a cell reads from {@code System.in}: what the user is asked for, or nothing. */
    InputStream input();

    void print(CellStream stream, String text);

    void display(DisplayData data);

    /** Replaces what was displayed under {@code id}. */
    void updateDisplay(String id, DisplayData data);
}
