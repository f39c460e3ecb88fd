package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.function.Consumer;

/**
 * The output of a running cell, delivered to its front end in order.
 *
 * <p>A separate thread delivers the output. It merges many small prints into one message, and stopping a cell never
 * interrupts a message.
 */
final class CellOutput {
    private static final long BATCH_MS = 40;
    private static final int MOST_PENDING_CHARS = 1 << 20;

    private final FrontEnd frontEnd;
    private final Deque<Consumer<FrontEnd>> pending = new ArrayDeque<>();
    private int pendingChars;
    private int draining;
    private boolean delivering;

    CellOutput(FrontEnd frontEnd) {
        this.frontEnd = frontEnd;
        var thread = new Thread(this::deliver, "cell output");
        thread.setDaemon(true);
        thread.start();
    }

    /** Redirects {@code System.out}, {@code err} and {@code in} to the cell until {@code close}. */
    Redirection redirect() {
        return new Redirection();
    }

    final class Redirection {
        private final PrintStream out = System.out;
        private final PrintStream err = System.err;
        private final InputStream in = System.in;

        private Redirection() {
            System.setOut(new PrintStream(new Utf8(FrontEnd.CellStream.STDOUT), true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(new Utf8(FrontEnd.CellStream.STDERR), true, StandardCharsets.UTF_8));
            System.setIn(frontEnd.input());
        }

        void close() {
            PrintStream cellOut = System.out;
            PrintStream cellErr = System.err;
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
            try {
                flush(cellOut);
                flush(cellErr);
            } finally {
                drain();
            }
        }

        /** Flushes a stream that the cell may have replaced, even by null. */
        private void flush(PrintStream stream) {
            if (stream != null) {
                stream.flush();
            }
        }
    }

    void display(DisplayData data) {
        put(to -> to.display(data));
    }

    void updateDisplay(String id, DisplayData data) {
        put(to -> to.updateDisplay(id, data));
    }

    /** Sends a message after all output so far. */
    void send(Runnable message) {
        put(to -> message.run());
    }

    private synchronized void put(Consumer<FrontEnd> item) {
        pending.add(item);
        notifyAll();
    }

    private synchronized void print(FrontEnd.CellStream stream, String text) {
        while (pendingChars > MOST_PENDING_CHARS) {
            try {
                wait();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                break;
            }
        }
        pendingChars += text.length();
        if (!(pending.peekLast() instanceof Text last && last.stream == stream)) {
            pending.add(new Text(stream, new StringBuilder()));
        }
        ((Text) pending.getLast()).text.append(text);
        notifyAll();
    }

    private record Text(FrontEnd.CellStream stream, StringBuilder text) implements Consumer<FrontEnd> {
        @Override
        public void accept(FrontEnd to) {
            to.print(stream, text.toString());
        }
    }

    /** Blocks until all output so far has been delivered. */
    synchronized void drain() {
        draining++;
        notifyAll();
        boolean interrupted = false;
        while (delivering || !pending.isEmpty()) {
            try {
                wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        draining--;
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void deliver() {
        while (true) {
            try {
                for (Consumer<FrontEnd> item : take()) {
                    deliver(item);
                }
            } catch (InterruptedException | Error e) {
                // A cell interrupted this thread, or filled the memory. The output after this is delivered.
            } finally {
                synchronized (this) {
                    delivering = false;
                    notifyAll();
                }
            }
        }
    }

    private void deliver(Consumer<FrontEnd> item) {
        try {
            item.accept(frontEnd);
        } catch (RuntimeException e) {
            // The front end is gone; the cell continues.
        }
    }

    private synchronized Deque<Consumer<FrontEnd>> take() throws InterruptedException {
        while (pending.isEmpty()) {
            wait();
        }
        long limit = System.nanoTime() + BATCH_MS * 1_000_000;
        for (long left = BATCH_MS;
                draining == 0 && pendingChars <= MOST_PENDING_CHARS && left > 0;
                left = (limit - System.nanoTime()) / 1_000_000) {
            wait(left);
        }
        Deque<Consumer<FrontEnd>> taken = new ArrayDeque<>(pending);
        pending.clear();
        pendingChars = 0;
        delivering = true;
        notifyAll();
        return taken;
    }

    /** Decodes UTF-8 and holds back incomplete characters until their last byte arrives. */
    private final class Utf8 extends OutputStream {
        private final FrontEnd.CellStream stream;
        private byte[] incomplete = {};

        private Utf8(FrontEnd.CellStream stream) {
            this.stream = stream;
        }

        @Override
        public synchronized void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            byte[] all = Arrays.copyOf(incomplete, incomplete.length + length);
            System.arraycopy(bytes, offset, all, incomplete.length, length);
            int whole = wholeCharacters(all);
            incomplete = Arrays.copyOfRange(all, whole, all.length);
            if (whole > 0) {
                print(stream, new String(all, 0, whole, StandardCharsets.UTF_8));
            }
        }

        private static int wholeCharacters(byte[] utf8) {
            for (int back = 1; back <= Math.min(3, utf8.length); back++) {
                int lead = utf8[utf8.length - back] & 0xFF;
                int needs = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
                if (needs > back) {
                    return utf8.length - back;
                }
                if (lead < 0x80 || lead >= 0xC0) {
                    break;
                }
            }
            return utf8.length;
        }
    }
}
