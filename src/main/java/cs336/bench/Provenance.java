package cs336.bench;

import cs336.torch.Device;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * The origin of measurements: machine, versions, commit and date.
 *
 * @param machine short name of the kind of machine, used as a folder name: {@code h200}, {@code h200-x2},
 *     {@code cpu-2core}
 * @param device full name of the device
 * @param versions versions of PyTorch with its Java bindings, Java, and on CUDA the CUDA runtime and the driver
 * @param commit commit of the sources: the environment variable {@code CS336_COMMIT} if it is set, otherwise the commit
 *     of the repository, with {@code +dirty} if files outside {@code data/} and {@code figures/} differ from it;
 *     {@code unknown} without a repository
 * @param date date and time in UTC, as in {@code 2026-11-20T14:05:00Z}
 */
public record Provenance(String machine, String device, String versions, String commit, String date) {
    /** @throws IllegalArgumentException if the machine is not a valid folder name */
    public Provenance {
        requireName("machine", machine);
    }

    /** @throws IllegalArgumentException if the value of the named argument is not a valid folder name of a machine */
    static void requireName(String argument, String machine) {
        if (!machine.matches("[A-Za-z0-9][A-Za-z0-9._-]*")) {
            throw new IllegalArgumentException(
                    argument + " must be letters, digits, '.', '_' and '-', not '" + machine + "'");
        }
    }

    /**
     * Returns the provenance of measurements in this process on one device. Loads libtorch and, on CUDA, uses the GPU.
     */
    public static Provenance of(Device device) {
        return of(device, 1);
    }

    /**
     * Returns the provenance of measurements on several devices of the same kind.
     *
     * @param device one of the devices
     * @param count number of devices, at least 1
     */
    public static Provenance of(Device device, int count) {
        String name = device.productName();
        int cores = Runtime.getRuntime().availableProcessors();
        String machine = device.isCuda() ? shortName(name) + (count > 1 ? "-x" + count : "") : "cpu-" + cores + "core";
        String full = device.isCuda() ? (count > 1 ? count + " × " : "") + name : name + " (" + cores + " cores)";
        return new Provenance(machine, full, Versions.of(device), head(), now());
    }

    /** Returns the same provenance with another machine name; null keeps the name. */
    public Provenance named(String machine) {
        return machine == null ? this : new Provenance(machine, device, versions, commit, date);
    }

    /** Returns the same provenance with the current date. */
    Provenance dated() {
        return new Provenance(machine, device, versions, commit, now());
    }

    /** Returns {@code h200} for {@code NVIDIA H200} and {@code rtx-4090} for {@code NVIDIA GeForce RTX 4090}. */
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
        if (given != null && !given.isBlank()) {
            return given.strip();
        }
        String commit = git("rev-parse", "--short=10", "HEAD");
        if (commit == null) {
            return "unknown";
        }
        String changed = git("status", "--porcelain", "--", ".", ":(exclude)data", ":(exclude)figures");
        return commit + (changed == null || changed.isEmpty() ? "" : "+dirty");
    }

    /** Returns the output of a git command, or null if git or the repository is missing. */
    private static String git(String... arguments) {
        try {
            var command = new String[arguments.length + 1];
            command[0] = "git";
            System.arraycopy(arguments, 0, command, 1, arguments.length);
            Process git = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            var output = new String(git.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
            return git.waitFor(10, TimeUnit.SECONDS) && git.exitValue() == 0 ? output : null;
        } catch (IOException e) {
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }
}
