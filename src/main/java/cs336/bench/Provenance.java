package cs336.bench;

import cs336.torch.Device;
import cs336.torch.Torch;
import cs336.units.HostLoad;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.cuda.global.cudart;

/**
 * The origin of measurements: machine, versions, commit, date, host and load.
 *
 * @param machine short name of the kind of machine, used as a folder name: {@code h200}, {@code h200-x2},
 *     {@code cpu-2core}
 * @param device full name of the device
 * @param versions versions of PyTorch with its Java bindings, Java, and on CUDA the CUDA runtime and the driver
 * @param commit commit of the sources: the environment variable {@code CS336_COMMIT} if it is set, otherwise the commit
 *     of the repository, with {@code +dirty} if files outside {@code data/} and {@code figures/} differ from it;
 *     {@code unknown} without a repository
 * @param date date and time in UTC, as in {@code 2026-11-20T14:05:00Z}
 * @param host CPU model and number of cores; on the CPU the same as {@code device}
 * @param load the host's load average over the last minute, as in {@code 1.25}. It includes the measuring processes.
 *     Empty if the operating system does not report it
 */
public record Provenance(
        String machine, String device, String versions, String commit, String date, String host, String load) {
    private static final String DIRTY = "+dirty";

    /** @throws IllegalArgumentException if the machine is not a valid folder name */
    public Provenance {
        requireName("machine", machine);
    }

    /**
     * Checks the name of a machine.
     *
     * @param argument the name of the argument, for the message
     * @throws IllegalArgumentException if the name of the machine is not a valid folder name
     */
    public static void requireName(String argument, String machine) {
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
        String host = Device.cpu().productName() + " (" + cores + " cores)";
        String machine = device.isCuda() ? shortName(name) + (count > 1 ? "-x" + count : "") : "cpu-" + cores + "core";
        String full = device.isCuda() ? (count > 1 ? count + " × " : "") + name : host;
        return new Provenance(machine, full, Versions.of(device), commitHere(), now(), host, loadNow());
    }

    /** Returns the same provenance with another machine name; null keeps the name. */
    public Provenance named(String machine) {
        return machine == null ? this : new Provenance(machine, device, versions, commit, date, host, load);
    }

    /** Returns the same provenance with the current date and load. */
    public Provenance updated() {
        return new Provenance(machine, device, versions, commit, now(), host, loadNow());
    }

    /** Returns whether files differed from the commit. */
    public static boolean isDirty(String commit) {
        return commit.endsWith(DIRTY);
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

    private static String loadNow() {
        double average = HostLoad.now().average();
        return average < 0 ? "" : String.format(Locale.ROOT, "%.2f", average);
    }

    /** Returns the commit of the sources, see {@link #commit()}. */
    public static String commitHere() {
        String given = System.getenv("CS336_COMMIT");
        if (given != null && !given.isBlank()) {
            return given.strip();
        }
        String commit = Git.output(Path.of(""), "rev-parse", "--short=10", "HEAD");
        if (commit == null) {
            return "unknown";
        }
        String changed = Git.output(
                Path.of(""), "status", "--porcelain", "--", ":/", ":(top,exclude)data", ":(top,exclude)figures");
        return commit + (changed != null && changed.isEmpty() ? "" : DIRTY);
    }

    /** The versions of the software that a measurement depends on. */
    private static final class Versions {
        private static final Path DRIVER = Path.of("/proc/driver/nvidia/version");

        private Versions() {}

        /** Returns one line, as in {@code pytorch 2.10.0-1.5.13; java 17.0.18; cuda 13.1; driver 580.95.05}. */
        static String of(Device device) {
            List<String> versions = new ArrayList<>();
            versions.add("pytorch " + Torch.version());
            versions.add("java " + Runtime.version().toString().replaceAll("\\+.*", ""));
            if (device.isCuda()) {
                versions.add("cuda " + cudaRuntime());
                versions.add("driver " + driver());
            }
            return String.join("; ", versions);
        }

        private static String cudaRuntime() {
            try {
                int[] version = new int[1];
                cudart.cudaRuntimeGetVersion(version); // 13010 is 13.1
                return version[0] / 1000 + "." + version[0] % 1000 / 10;
            } catch (LinkageError e) {
                return "unknown";
            }
        }

        private static String driver() {
            try {
                Matcher number = Pattern.compile("\\d+\\.\\d+(\\.\\d+)?")
                        .matcher(Files.readString(DRIVER).lines().findFirst().orElse(""));
                return number.find() ? number.group() : "unknown";
            } catch (IOException e) {
                return "unknown";
            }
        }
    }
}
