package cs336.distributed.bench;

import cs336.distributed.collectives.Host;
import cs336.torch.Device;
import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a card has counted at its NVLinks, as {@code nvidia-smi nvlink -gt d} prints it: bytes of data, of every
 * process, in steps of a KiB. To ask takes a process, so not while anything is timed.
 */
final class NvLinkBytes {
    private static final Pattern CARD = Pattern.compile("GPU \\d+: .*");
    private static final Pattern COUNTER = Pattern.compile("\\s*Link (\\d+): Data (Tx|Rx): (\\d{1,15}) KiB");
    private static final long KIB = 1024;

    private NvLinkBytes() {}

    /** Bytes that a card has sent since its driver was loaded; nothing where it has no NVLink, or does not tell. */
    static OptionalLong sent(Device device) {
        if (!device.isCuda()) return OptionalLong.empty();
        try {
            // by its place: CUDA may number cards in another way than nvidia-smi, which always sees all of them
            return sent(NvidiaSmi.said("nvlink", "-gt", "d", "-i", Host.busId(device)));
        } catch (IOException e) {
            return OptionalLong.empty();
        }
    }

    /**
     * The sum over the links of one card; nothing where the text is not all of one card's counters, sent and received
     * of each link.
     */
    static OptionalLong sent(String said) {
        List<String> lines = said.lines().filter(line -> !line.isBlank()).toList();
        if (lines.size() < 3
                || lines.size() % 2 == 0
                || !CARD.matcher(lines.get(0)).matches()) {
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
            if (transmitted) sum += Long.parseLong(counter.group(3)) * KIB;
        }
        return OptionalLong.of(sum);
    }
}
