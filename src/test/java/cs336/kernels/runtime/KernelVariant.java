package cs336.kernels.runtime;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * One kernel with all that makes it, as a launch would have it.
 *
 * @param file source in {@code kernels/}
 * @param kernel its name there
 * @param defines what it is compiled with; {@code SM_BLOCKS}, if among them, blocks must fit into a multiprocessor,
 *     else one
 * @param threads of a block
 * @param sharedBytes of dynamic shared memory a block
 * @param architectures what it is written for
 */
public record KernelVariant(
        String file,
        String kernel,
        Map<String, Object> defines,
        int threads,
        int sharedBytes,
        List<GpuArchitecture> architectures) {
    public static final GpuArchitecture AMPERE = GpuArchitecture.parse("sm_80");
    public static final GpuArchitecture HOPPER = GpuArchitecture.parse("sm_90a");

    /** A kernel for every card. */
    public KernelVariant(String file, String kernel, Map<String, Object> defines, int threads, int sharedBytes) {
        this(file, kernel, defines, threads, sharedBytes, List.of(AMPERE, HOPPER));
    }

    /** A kernel with instructions that Hopper alone has. */
    public static KernelVariant forHopper(
            String file, String kernel, Map<String, Object> defines, int threads, int sharedBytes) {
        return new KernelVariant(file, kernel, defines, threads, sharedBytes, List.of(HOPPER));
    }

    /** Compiles the kernel for each of its architectures: what is wrong with the outcome, nothing if all is well. */
    public List<String> faults() {
        List<String> faults = new ArrayList<>();
        for (GpuArchitecture architecture : architectures) {
            Cubin cubin = KernelCompiler.shared().compile(KernelSource.named(file), defines, architecture);
            for (String fault : faults(cubin)) faults.add(architecture + ": " + fault);
            int blocks = cubin.resources(kernel)
                    .occupancy(architecture, threads, sharedBytes)
                    .blocks();
            int asked = (int) defines.getOrDefault("SM_BLOCKS", 1);
            if (blocks < asked) faults.add(architecture + ": " + blocks + " blocks fit, not " + asked);
        }
        return faults;
    }

    /** Spills, and messages about tensor cores that wait, of all kernels that came of a source. */
    public static List<String> faults(Cubin cubin) {
        List<String> faults = new ArrayList<>(cubin.performanceMessages());
        cubin.resources().forEach((name, used) -> {
            if (used.spillStores() > 0 || used.spillLoads() > 0) faults.add(name + " spills: " + used);
        });
        return faults;
    }
}
