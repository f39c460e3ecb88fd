package cs336.kernels.runtime;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUmod_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;

/**
 * A cubin that is loaded on a GPU, where it stays until the process ends.
 *
 * <pre>{@code
 * var module = KernelModule.load(KernelSource.named("column_sum.cu"), Map.of("ELEMENT", "float"), device);
 * module.kernel("column_sum").launch(new GridDim(32), new BlockDim(1024), 0, partial, sum, 264, 1024);
 * }</pre>
 */
public final class KernelModule {
    private final Cubin cubin;
    private final Device device;
    private final CUctx_st context;
    private final CUmod_st module = MemoryScope.keep(new CUmod_st());
    private final Map<String, Kernel> kernels = new ConcurrentHashMap<>();

    private KernelModule(Cubin cubin, Device device) {
        this.cubin = cubin;
        this.device = device;
        context = Driver.context(device.index());
        try (BytePointer image = new BytePointer(cubin.image());
                var scratch = new CUctx_st()) {
            Driver.in(context, scratch, () -> Driver.check(cudart.cuModuleLoadData(module, image), "cuModuleLoadData"));
        }
    }

    /**
     * Loads a cubin.
     *
     * @throws IllegalArgumentException if the device is not a CUDA device
     * @throws IllegalStateException if the driver cannot load it, for example because of its architecture
     */
    public static KernelModule load(Cubin cubin, Device device) {
        if (!device.isCuda()) {
            throw new IllegalArgumentException("device must be a CUDA device, not " + device);
        }
        return new KernelModule(cubin, device);
    }

    /**
     * Compiles a source for the device's architecture, or takes it from the cache, and loads it.
     *
     * @param defines macros and their values
     * @throws IllegalArgumentException if the device is not a CUDA device
     * @throws KernelCompileException if the source has errors
     * @throws IllegalStateException if NVRTC is not found, or the driver cannot load the cubin
     */
    public static KernelModule load(KernelSource source, Map<String, ?> defines, Device device) {
        return load(KernelCompiler.shared().compile(source, defines, GpuArchitecture.of(device)), device);
    }

    /**
     * Returns a kernel by the name of its {@code __global__} function, which must be {@code extern "C"}.
     *
     * @throws IllegalArgumentException if the module has no such kernel; the message lists its kernels
     */
    public Kernel kernel(String name) {
        return kernels.computeIfAbsent(name, n -> {
            KernelResources resources = cubin.resources(n);
            CUfunc_st function = MemoryScope.keep(new CUfunc_st());
            try (CUctx_st scratch = new CUctx_st()) {
                Driver.in(
                        context,
                        scratch,
                        () -> Driver.check(
                                cudart.cuModuleGetFunction(function, module, n), "cuModuleGetFunction " + n));
            }
            return new Kernel(n, function, context, device, resources);
        });
    }
}
