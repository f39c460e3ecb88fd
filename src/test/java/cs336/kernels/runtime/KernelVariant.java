package cs336.kernels.runtime;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A kernel with macros and launch configuration, to be compiled and checked without a GPU.
 *
 * @param file source in {@code kernels/}
 * @param kernel name of the {@code __global__} function
 * @param defines macros; with {@code SM_BLOCKS}, that many blocks must fit on a multiprocessor, otherwise one
 * @param threads threads per block
 * @param sharedBytes dynamic shared memory per block
 * @param architectures architectures that the kernel supports
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

    /** Creates a variant for all architectures. */
    public KernelVariant(String file, String kernel, Map<String, Object> defines, int threads, int sharedBytes) {
        this(file, kernel, defines, threads, sharedBytes, List.of(AMPERE, HOPPER));
    }

    /** Returns a variant for Hopper only. */
    public static KernelVariant forHopper(
            String file, String kernel, Map<String, Object> defines, int threads, int sharedBytes) {
        return new KernelVariant(file, kernel, defines, threads, sharedBytes, List.of(HOPPER));
    }

    /** Returns whether the kernel's cubins for all of its architectures are cached. */
    public boolean isCached() {
        return architectures.stream()
                .allMatch(architecture ->
                        KernelCompiler.shared().isCached(KernelSource.named(file), defines, architecture));
    }

    /** Compiles the kernel for each of its architectures and returns the faults that were found. */
    public List<String> faults() {
        List<String> faults = new ArrayList<>();
        for (GpuArchitecture architecture : architectures) {
            Cubin cubin = KernelCompiler.shared().compile(KernelSource.named(file), defines, architecture);
            for (String fault : faults(cubin)) {
                faults.add(architecture + ": " + fault);
            }
            int blocks = cubin.resources(kernel)
                    .occupancy(architecture, threads, sharedBytes)
                    .blocks();
            int required = (int) defines.getOrDefault("SM_BLOCKS", 1);
            if (blocks < required) {
                faults.add(architecture + ": " + blocks + " blocks fit, not " + required);
            }
        }
        return faults;
    }

    /** Returns the register spills of all kernels in a cubin, and the warnings about serialized wgmma instructions. */
    public static List<String> faults(Cubin cubin) {
        List<String> faults = new ArrayList<>(cubin.performanceMessages());
        cubin.resources().forEach((name, used) -> {
            if (used.spillStores() > 0 || used.spillLoads() > 0) {
                faults.add(name + " spills: " + used);
            }
        });
        return faults;
    }
}
