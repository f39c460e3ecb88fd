package cs336.kernels.runtime;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A cubin: the machine code of a kernel source for one architecture.
 *
 * @param image ELF file that the driver can load
 * @param log the compiler's log, with ptxas's resource usage of each kernel
 */
public record Cubin(byte[] image, String log) {
    private static final Pattern KERNEL = Pattern.compile("Compiling entry function '([^']+)'");
    private static final Pattern STACK =
            Pattern.compile("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
    private static final Pattern REGISTERS = Pattern.compile("Used (\\d+) registers");
    private static final Pattern BARRIERS = Pattern.compile("used (\\d+) barriers");
    private static final Pattern SHARED = Pattern.compile("(\\d+) bytes smem");

    /** C7508: setmaxnreg is ignored. C7510 to C7519: wgmma is serialized, often with a wait after every instruction. */
    private static final Pattern WGMMA_WARNING = Pattern.compile("(?m)^.*\\(C75\\d\\d\\).*$");

    /**
     * Returns ptxas's messages C7500 to C7599: it could not keep wgmma instructions asynchronous, or ignored
     * setmaxnreg. The kernel still computes correct results, but may be slower, which tests of the results cannot
     * detect.
     */
    public List<String> performanceMessages() {
        return WGMMA_WARNING
                .matcher(log)
                .results()
                .map(line -> line.group().strip())
                .toList();
    }

    /** Returns the resource usage of each kernel of the source, by name. */
    public Map<String, KernelResources> resources() {
        return resourcesIn(log);
    }

    /** Returns the resource usage of each kernel in a log of the compiler. */
    static Map<String, KernelResources> resourcesIn(String log) {
        Map<String, KernelResources> byName = new TreeMap<>();
        Matcher kernel = KERNEL.matcher(log);
        while (kernel.find()) {
            Matcher next = KERNEL.matcher(log);
            String section = log.substring(kernel.end(), next.find(kernel.end()) ? next.start() : log.length());
            byName.put(
                    kernel.group(1),
                    new KernelResources(
                            number(REGISTERS, 1, section),
                            number(SHARED, 1, section),
                            number(BARRIERS, 1, section),
                            number(STACK, 1, section),
                            number(STACK, 2, section),
                            number(STACK, 3, section)));
        }
        return byName;
    }

    /**
     * Returns the resource usage of one kernel.
     *
     * @throws IllegalArgumentException if the source has no kernel with this name
     */
    public KernelResources resources(String kernel) {
        Objects.requireNonNull(kernel, "kernel must not be null");
        KernelResources found = resources().get(kernel);
        if (found == null) {
            throw new IllegalArgumentException("kernel '" + kernel + "' is unknown; there are "
                    + resources().keySet());
        }
        return found;
    }

    /** Returns the number in a kernel's section of the log; ptxas omits numbers that are 0. */
    private static int number(Pattern pattern, int group, String section) {
        Matcher found = pattern.matcher(section);
        return found.find() ? Integer.parseInt(found.group(group)) : 0;
    }
}
