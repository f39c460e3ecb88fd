package cs336.kernels.optimizer;

import cs336.basics.AdamWKernel;
import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A kernel that updates all fp32 parameters on one GPU by AdamW in one launch, {@code kernels/adamw.cu}. It moves 28
 * bytes per parameter and is memory-bound. A bf16 gradient and a 16-bit copy of the parameter together move no more.
 */
public final class MultiTensorAdamW implements AdamWKernel {
    public static final String FILE = "adamw.cu";
    public static final String KERNEL = "adamw";
    public static final int THREADS = 256;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final int CHUNK = 8 * THREADS;
    private static final int ALIGNMENT = 16;
    // The words of a tensor in the kernel's first table, int64.
    private static final int PARAMETER = 0;
    private static final int GRADIENT = 1;
    private static final int M = 2;
    private static final int V = 3;
    private static final int COPY = 4; // the last address
    private static final int ELEMENTS = 5;
    private static final int GRADIENT_TYPE = 6;
    private static final int COPY_TYPE = 7;
    private static final int WORDS = 8;
    // The values of the words with types.
    private static final long FP32 = 0;
    private static final long BF16 = 1;
    private static final long FP16 = 2;
    private static final Long NULL = 0L; // a pointer
    private static final Map<KernelKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record KernelKey(int vector, Device device) {}

    /** Returns the macros to compile the kernel with; {@code vector} is the number of elements per memory access. */
    public static Map<String, Object> defines(int vector) {
        return Map.of("VECTOR", vector, "THREADS", THREADS, "CHUNK", CHUNK);
    }

    @Override
    public Optional<AdamWUpdate> prepare(AdamWTensors tensors) {
        boolean supported = tensors.parameters().stream()
                .allMatch(p ->
                        p.is_cuda() && DType.of(p) == DType.FLOAT32 && Gpu.of(p).runsKernels());
        return supported ? Optional.of(new TensorTables(tensors)) : Optional.empty();
    }

    /** Returns the address of the first element; 0 if there is none. */
    private static long address(Tensor tensor) {
        Pointer data = tensor.data_ptr();
        return data == null ? 0 : data.address();
    }

    private static long type(DType dtype) {
        return switch (dtype) {
            case FLOAT32 -> FP32;
            case BFLOAT16 -> BF16;
            case FLOAT16 -> FP16;
            default -> throw new IllegalArgumentException("the kernel has no code for " + dtype);
        };
    }

    /**
     * The kernel's tables in GPU memory: the addresses of the tensors, and the tensor and chunk that each block
     * updates.
     */
    private static final class TensorTables implements AdamWUpdate {
        private final List<Tensor> parameters;
        private final Device device;
        private final long[] words;
        private final int chunks;
        private final Tensor tensors; // int64, [tensors, WORDS]
        private final Tensor chunkTensor; // int32, [chunks]: index of the chunk's tensor
        private final Tensor chunkStart; // int32, [chunks]: first element of the chunk, in units of CHUNK
        private Kernel kernel;

        TensorTables(AdamWTensors all) {
            parameters = all.parameters();
            device = Gpu.of(parameters.get(0)).device();
            words = new long[WORDS * parameters.size()];
            var indices = new ArrayList<Integer>();
            var starts = new ArrayList<Integer>();
            for (int i = 0; i < parameters.size(); i++) {
                long elements = parameters.get(i).numel();
                words[WORDS * i + PARAMETER] = address(parameters.get(i));
                words[WORDS * i + M] = address(all.m().get(i));
                words[WORDS * i + V] = address(all.v().get(i));
                words[WORDS * i + ELEMENTS] = elements;
                Tensor copy = all.copies().get(i);
                if (copy != null) {
                    words[WORDS * i + COPY] = address(copy);
                    words[WORDS * i + COPY_TYPE] = type(DType.of(copy));
                }
                for (int start = 0; (long) start * CHUNK < elements; start++) {
                    indices.add(i);
                    starts.add(start);
                }
            }
            chunks = indices.size();
            try (var scope = MemoryScope.open()) {
                long[] shape = {parameters.size(), WORDS};
                tensors = MemoryScope.keep(torch.zeros(shape, device.options(DType.INT64)));
                chunkTensor = toDevice(indices);
                chunkStart = toDevice(starts);
            }
        }

        private Tensor toDevice(List<Integer> values) {
            long[] wide = values.stream().mapToLong(Integer::longValue).toArray();
            return MemoryScope.keep(Tensors.of(wide, wide.length).to(device.toTorch(), DType.INT32.scalarType()));
        }

        @Override
        public void step(List<Tensor> gradients, Tensor gradientFactor, AdamWScalars scalars) {
            if (chunks == 0) {
                return;
            }
            updateGradients(gradients);
            kernel.launch(
                    new GridDim(chunks),
                    new BlockDim(THREADS),
                    0,
                    tensors,
                    chunkTensor,
                    chunkStart,
                    gradientFactor == null ? NULL : gradientFactor,
                    (float) (1 - scalars.learningRate() * scalars.weightDecay()),
                    (float) scalars.beta1(),
                    (float) (1 - scalars.beta1()),
                    (float) scalars.beta2(),
                    (float) (1 - scalars.beta2()),
                    (float) (scalars.learningRate() / (1 - Math.pow(scalars.beta1(), scalars.step()))),
                    (float) Math.sqrt(1 - Math.pow(scalars.beta2(), scalars.step())),
                    (float) scalars.eps());
            // The kernel writes through addresses, so autograd does not see that the parameters have changed.
            try (var scope = MemoryScope.open()) {
                parameters.forEach(p -> p.unsafeGetTensorImpl().bump_version());
            }
        }

        /** Copies the addresses and types of the gradients to the GPU if they differ from those of the last step. */
        private void updateGradients(List<Tensor> gradients) {
            boolean moved = kernel == null;
            for (int i = 0; i < gradients.size(); i++) {
                Tensor gradient = gradients.get(i);
                DType dtype = DType.of(gradient);
                if (dtype != DType.FLOAT32 && dtype != DType.BFLOAT16) { // the kernel reads these two
                    gradient = gradient.to(ScalarType.Float);
                    dtype = DType.FLOAT32;
                }
                long address = address(gradient);
                long type = type(dtype);
                moved |= words[WORDS * i + GRADIENT] != address || words[WORDS * i + GRADIENT_TYPE] != type;
                words[WORDS * i + GRADIENT] = address;
                words[WORDS * i + GRADIENT_TYPE] = type;
            }
            if (!moved) {
                return;
            }
            try (var scope = MemoryScope.open()) {
                boolean nonBlocking = true; // the driver has copied pageable memory when the call returns
                tensors.copy_(Tensors.of(words, words.length / WORDS, WORDS), nonBlocking);
            }
            boolean aligned = true;
            for (int i = 0; i < words.length; i++) {
                aligned &= i % WORDS > COPY || words[i] % ALIGNMENT == 0;
            }
            kernel = KERNELS.computeIfAbsent(
                    new KernelKey(aligned ? 4 : 1, device),
                    key -> KernelModule.load(SOURCE, defines(key.vector), device)
                            .kernel(KERNEL));
        }

        @Override
        public void close() {
            List.of(tensors, chunkTensor, chunkStart).forEach(Tensor::close);
        }
    }
}
