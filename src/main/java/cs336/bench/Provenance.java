package cs336.bench;

import cs336.torch.Device;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * Where measurements come from: what makes them comparable, and repeatable.
 *
 * @param machine short name of the kind of machine, good for a folder: {@code h200}, {@code h200-x2}, {@code cpu-2core}
 * @param device the device's full name
 * @param versions of PyTorch and its bindings, Java, and where there is one the CUDA runtime and the driver
 * @param commit of the sources, with {@code +dirty} where files beside data and figures differ from it; {@code unknown}
 *     where there is no repository and {@code CS336_COMMIT} is not set
 * @param date in UTC, as in {@code 2026-11-20T14:05:00Z}
 */
public record Provenance(String machine, String device, String versions, String commit, String date) {
    public Provenance {
        requireName(machine);
    }

    static void requireName(String machine) {
        if (!machine.matches("[A-Za-z0-9][A-Za-z0-9._-]*")) {
            throw new IllegalArgumentException(
                    "machine is '" + machine + "': a folder name of letters, digits, '.', '_' and '-' is needed");
        }
    }

    /** This process, now, on a device of its own. Loads libtorch, and on CUDA occupies the card. */
    public static Provenance of(Device device) {
        return of(device, 1);
    }

    /**
     * This process, now.
     *
     * @param device one of the devices
     * @param count how many such devices take part
     */
    public static Provenance of(Device device, int count) {
        String name = device.productName();
        int cores = Runtime.getRuntime().availableProcessors();
        String machine = device.isCuda() ? shortName(name) + (count > 1 ? "-x" + count : "") : "cpu-" + cores + "core";
        String full = device.isCuda() ? (count > 1 ? count + " × " : "") + name : name + " (" + cores + " cores)";
        return new Provenance(machine, full, Versions.of(device), head(), now());
    }

    /** The same, under a machine name of the user's choice; null keeps the name. */
    public Provenance named(String machine) {
        return machine == null ? this : new Provenance(machine, device, versions, commit, date);
    }

    /** The same, at this moment. */
    Provenance dated() {
        return new Provenance(machine, device, versions, commit, now());
    }

    /** {@code NVIDIA H200} → {@code h200}, {@code NVIDIA GeForce RTX 4090} → {@code rtx-4090}. */
    static String shortName(String product) {
        String lower = product.toLowerCase(Locale.ROOT).replaceAll("\\b(nvidia|geforce|tesla|quadro)\\b", " ");
        String name = lower.replaceAll("[^a-z0-9.]+", "-").replaceAll("^[-.]+|[-.]+$", "");
        return name.isEmpty() ? "gpu" : name;
    }

    private static String now() {
        return Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
    }

    private static String head() {
        String given = System.getenv("CS336_COMMIT");
        if (given != null && !given.isBlank()) return given.strip();
        String commit = git("rev-parse", "--short=10", "HEAD");
        if (commit == null) return "unknown";
        String changed = git("status", "--porcelain", "--", ".", ":(exclude)data", ":(exclude)figures");
        return commit + (changed == null || changed.isEmpty() ? "" : "+dirty");
    }

    /** What git says, or null where there is no git or no repository. */
    private static String git(String... arguments) {
        try {
            var command = new String[arguments.length + 1];
            command[0] = "git";
            System.arraycopy(arguments, 0, command, 1, arguments.length);
            Process git = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            String said = new String(git.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
            return git.waitFor(10, TimeUnit.SECONDS) && git.exitValue() == 0 ? said : null;
        } catch (IOException e) {
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }
}
