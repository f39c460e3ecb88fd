package cs336.bench;

import cs336.torch.Device;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.cuda.global.cudart;

/** The versions of the software that a measurement depends on. */
final class Versions {
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
