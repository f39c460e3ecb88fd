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

/** NVIDIA's command-line tool for GPUs, part of the driver. */
final class NvidiaSmi {
    private static final String PROGRAM = "nvidia-smi";

    /** Time limit, longer than the driver needs to initialize the GPUs. With a failed GPU the tool may never end. */
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private NvidiaSmi() {}

    /**
     * Runs {@code nvidia-smi} with these arguments and returns its standard output and error.
     *
     * @throws IOException if it cannot be run or does not end within 30 s
     */
    static String output(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(PROGRAM));
        command.addAll(List.of(arguments));
        return output(command, LIMIT);
    }

    /** Runs any program and returns its standard output and error. */
    static String output(List<String> command, Duration limit) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        var output = CompletableFuture.supplyAsync(() -> read(process), NvidiaSmi::start);
        try {
            return output.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new IOException(String.join(" ", command) + " did not end within " + Rendezvous.text(limit), e);
        } catch (ExecutionException e) {
            throw new IOException(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while " + command.get(0) + " was running", e);
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
