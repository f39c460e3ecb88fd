package cs336.writeup;

import java.util.List;

/** The errors of a writeup that cannot be built, one per line with file and line number. */
public final class WriteupException extends Exception {
    WriteupException(List<String> problems) {
        super(String.join("\n", problems));
    }
}
