package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

class CellOutputTest {
    private static class Delivered implements FrontEnd {
        private final List<String> items = new CopyOnWriteArrayList<>();

        final List<String> items() {
            return items;
        }

        @Override
        public InputStream input() {
            return new ByteArrayInputStream("answer".getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public void print(CellStream stream, String text) {
            items.add(stream + ":" + text);
        }

        @Override
        public void display(DisplayData data) {
            items.add("display");
        }

        @Override
        public void updateDisplay(String id, DisplayData data) {
            items.add("update " + id);
        }
    }

    private final Delivered delivered = new Delivered();
    private final CellOutput output = new CellOutput(delivered);

    @Test
    void deliversInOrderAndMergesPrintsOfOneStream() {
        CellOutput.Redirection redirection = output.redirect();
        System.out.print("a");
        System.out.print("b\n");
        System.err.print("wrong");
        output.display(new DisplayData("x"));
        System.out.print("c");
        output.updateDisplay("7", new DisplayData("y"));
        redirection.close();
        assertEquals("STDOUT:ab\nSTDERR:wrongdisplaySTDOUT:cupdate 7", String.join("", delivered.items));
    }

    @Test
    void deliversWhileTheCellStillRuns() throws InterruptedException {
        CellOutput.Redirection redirection = output.redirect();
        try {
            System.out.print("no line end");
            for (int i = 0; i < 200 && delivered.items.isEmpty(); i++) {
                Thread.sleep(10);
            }
            assertEquals(List.of("STDOUT:no line end"), delivered.items);
        } finally {
            redirection.close();
        }
    }

    @Test
    void manySmallPrintsAreMergedIntoFewDeliveries() {
        CellOutput.Redirection redirection = output.redirect();
        for (int i = 0; i < 10_000; i++) {
            System.out.println(i);
        }
        redirection.close();
        assertTrue(delivered.items.size() < 1000, delivered.items.size() + " deliveries");
        assertEquals(10_000, String.join("", delivered.items).lines().count());
    }

    @Test
    void multibyteCharactersAreDeliveredWhole() {
        CellOutput.Redirection redirection = output.redirect();
        byte[] bytes = "é€😀".getBytes(StandardCharsets.UTF_8);
        for (byte b : bytes) {
            System.out.write(b);
            System.out.flush();
            output.drain();
        }
        redirection.close();
        assertEquals(List.of("STDOUT:é", "STDOUT:€", "STDOUT:😀"), delivered.items);
    }

    @Test
    void inputComesFromTheFrontEnd() throws IOException {
        CellOutput.Redirection redirection = output.redirect();
        var read = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        redirection.close();
        assertEquals("answer", read);
    }

    @Test
    void streamsAreRestored() {
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        output.redirect().close();
        assertSame(out, System.out);
        assertSame(err, System.err);
        assertSame(in, System.in);
    }

    @Test
    void outputAfterAnErrorOrAnInterruptOfTheDeliveryIsDelivered() {
        var failing = new Delivered() {
            @Override
            public void display(DisplayData data) {
                throw new OutOfMemoryError("made up");
            }
        };
        var unreliable = new CellOutput(failing);
        assertTimeoutPreemptively(Duration.ofSeconds(60), () -> {
            CellOutput.Redirection redirection = unreliable.redirect();
            unreliable.display(new DisplayData("x"));
            unreliable.drain();
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread.getName().equals("cell output")) {
                    thread.interrupt();
                }
            }
            System.out.print("after");
            redirection.close();
        });
        assertEquals(List.of("STDOUT:after"), failing.items());
    }
}
