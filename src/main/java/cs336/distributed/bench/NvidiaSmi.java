package cs336.distributed.bench;

import cs336.distributed.collectives.Rendezvous;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** NVIDIA's program that tells about cards, which comes with the driver. */
final class NvidiaSmi {
    private static final String PROGRAM = "nvidia-smi";

    /**
     * It takes some seconds where the driver has to wake the cards first, and no end where one has fallen off its bus.
     */
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private NvidiaSmi() {}

    /**
     * What {@code nvidia-smi} with these arguments printed, complaints included.
     *
     * @throws IOException if it cannot be run, or does not come to its end within 30 s
     */
    static String said(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(PROGRAM));
        command.addAll(List.of(arguments));
        return said(command, LIMIT);
    }

    /** The same of any program. */
    static String said(List<String> command, Duration limit) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        var said = CompletableFuture.supplyAsync(() -> read(process), NvidiaSmi::start);
        try {
            return said.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new IOException(
                    String.join(" ", command) + " did not come to its end within " + Rendezvous.text(limit), e);
        } catch (ExecutionException e) {
            throw new IOException(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while " + command.get(0) + " was asked", e);
        } finally {
            process.destroyForcibly();
        }
    }

    private static void start(Runnable reading) {
        var thread = new Thread(reading, PROGRAM);
        thread.setDaemon(true);
        thread.start();
    }

    private static String read(Process process) {
        try (var output = process.getInputStream()) {
            return new String(output.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
