package cs336.distributed.bench;

import cs336.distributed.collectives.Host;
import cs336.torch.Device;
import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The NVLink counters of a GPU, from the output of {@code nvidia-smi nvlink -gt d}: data bytes of all processes, in
 * units of a KiB. Reading them starts a process, so they must not be read during a timed section.
 */
final class NvLinkBytes {
    private static final Pattern GPU = Pattern.compile("GPU \\d+: .*");
    private static final Pattern COUNTER = Pattern.compile("\\s*Link (\\d+): Data (Tx|Rx): (\\d{1,15}) KiB");
    private static final long KIB = 1024;

    private NvLinkBytes() {}

    /** Returns the bytes that a GPU has sent since its driver was loaded; empty without NVLink or counters. */
    static OptionalLong sent(Device device) {
        if (!device.isCuda()) {
            return OptionalLong.empty();
        }
        try {
            // by PCI bus id, because CUDA and nvidia-smi may number the GPUs differently
            return sent(NvidiaSmi.output("nvlink", "-gt", "d", "-i", Host.busId(device)));
        } catch (IOException e) {
            return OptionalLong.empty();
        }
    }

    /**
     * Returns the bytes sent over all links of one GPU.
     *
     * @param output output of {@code nvidia-smi}; empty is returned unless it consists of the sent and received bytes
     *     of each link of a single GPU
     */
    static OptionalLong sent(String output) {
        List<String> lines = output.lines().filter(line -> !line.isBlank()).toList();
        if (lines.size() < 3
                || lines.size() % 2 == 0
                || !GPU.matcher(lines.get(0)).matches()) {
            return OptionalLong.empty();
        }
        long sum = 0;
        for (int i = 1; i < lines.size(); i++) {
            Matcher counter = COUNTER.matcher(lines.get(i));
            boolean transmitted = i % 2 == 1;
            if (!counter.matches()
                    || !counter.group(1).equals(Integer.toString((i - 1) / 2))
                    || !counter.group(2).equals(transmitted ? "Tx" : "Rx")) {
                return OptionalLong.empty();
            }
            if (transmitted) {
                sum += Long.parseLong(counter.group(3)) * KIB;
            }
        }
        return OptionalLong.of(sum);
    }
}
