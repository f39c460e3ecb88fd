package cs336.kernels.runtime;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A compiled source: machine code for one architecture.
 *
 * @param image an ELF file, as the driver loads it
 * @param log what the compiler said, with what ptxas says of each kernel
 */
public record Cubin(byte[] image, String log) {
    private static final Pattern KERNEL = Pattern.compile("Compiling entry function '([^']+)'");
    private static final Pattern STACK =
            Pattern.compile("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
    private static final Pattern REGISTERS = Pattern.compile("Used (\\d+) registers");
    private static final Pattern BARRIERS = Pattern.compile("used (\\d+) barriers");
    private static final Pattern SHARED = Pattern.compile("(\\d+) bytes smem");

    /**
     * C7508: setmaxnreg is ignored. C7510 to C7519: wgmma waits where the source does not, often after every product.
     */
    private static final Pattern TENSOR_CORES_WAIT = Pattern.compile("(?m)^.*\\(C75\\d\\d\\).*$");

    /**
     * What ptxas says of Hopper's tensor cores where it could not keep their products under way: messages C7500 to
     * C7599. Results are right all the same, so nothing else tells.
     */
    public List<String> performanceMessages() {
        return TENSOR_CORES_WAIT
                .matcher(log)
                .results()
                .map(line -> line.group().strip())
                .toList();
    }

    /** What each kernel of the source uses, by its name. */
    public Map<String, KernelResources> resources() {
        Map<String, KernelResources> byName = new TreeMap<>();
        Matcher kernel = KERNEL.matcher(log);
        while (kernel.find()) {
            Matcher next = KERNEL.matcher(log);
            String part = log.substring(kernel.end(), next.find(kernel.end()) ? next.start() : log.length());
            byName.put(
                    kernel.group(1),
                    new KernelResources(
                            number(REGISTERS, 1, part),
                            number(SHARED, 1, part),
                            number(BARRIERS, 1, part),
                            number(STACK, 1, part),
                            number(STACK, 2, part),
                            number(STACK, 3, part)));
        }
        return byName;
    }

    /**
     * What one kernel uses.
     *
     * @throws IllegalArgumentException if the source has no kernel of this name
     */
    public KernelResources resources(String kernel) {
        KernelResources found = resources().get(kernel);
        if (found == null) {
            throw new IllegalArgumentException("kernel '" + kernel + "' is unknown; there are "
                    + resources().keySet());
        }
        return found;
    }

    /** What ptxas leaves out is 0. */
    private static int number(Pattern pattern, int group, String part) {
        Matcher found = pattern.matcher(part);
        return found.find() ? Integer.parseInt(found.group(group)) : 0;
    }
}
