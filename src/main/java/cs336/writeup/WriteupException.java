package cs336.writeup;

import java.util.List;

/** A writeup that cannot be built: what is wrong, each with its file and line. */
public final class WriteupException extends Exception {
    WriteupException(List<String> problems) {
        super(String.join("\n", problems));
    }
}
