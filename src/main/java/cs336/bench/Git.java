package cs336.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The command {@code git}. */
public final class Git {
    private Git() {}

    /**
     * Runs git in a folder and returns its output without leading and trailing white space; null if git or the
     * repository is missing, or the command fails or takes longer than 10 s.
     */
    public static String output(Path folder, String... arguments) {
        Objects.requireNonNull(arguments, "arguments must not be null");
        try {
            var command = new ArrayList<>(List.of("git"));
            command.addAll(List.of(arguments));
            Process git = new ProcessBuilder(command)
                    .directory(folder.toAbsolutePath().toFile())
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            try {
                String output = CompletableFuture.supplyAsync(() -> read(git)).get(10, TimeUnit.SECONDS);
                return git.waitFor(1, TimeUnit.SECONDS) && git.exitValue() == 0 ? output.strip() : null;
            } finally {
                git.destroyForcibly();
            }
        } catch (IOException | ExecutionException | TimeoutException e) {
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    private static String read(Process git) {
        try (var output = git.getInputStream()) {
            return new String(output.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
