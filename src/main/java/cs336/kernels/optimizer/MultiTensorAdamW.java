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
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A kernel that updates all fp32 parameters on one GPU by AdamW in one launch, {@code kernels/adamw.cu}. It moves 28
 * bytes per parameter and is memory-bound.
 */
public final class MultiTensorAdamW implements AdamWKernel {
    public static final String FILE = "adamw.cu";
    public static final String KERNEL = "adamw";
    public static final int THREADS = 256;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final int CHUNK = 8 * THREADS;
    private static final int WORDS = 5; // int64 values per tensor in the kernel's first table
    private static final int GRADIENT = 1; // the word with the gradient's address
    private static final int ELEMENTS = 4; // the word with the number of elements
    private static final int ALIGNMENT = 16;
    private static final Map<KernelKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record KernelKey(int vector, Device device) {}

    /** Returns the macros to compile the kernel with; {@code vector} is the number of elements per memory access. */
    public static Map<String, Object> defines(int vector) {
        return Map.of("VECTOR", vector, "THREADS", THREADS, "CHUNK", CHUNK);
    }

    @Override
    public Optional<AdamWUpdate> prepare(List<Tensor> parameters, List<Tensor> m, List<Tensor> v) {
        boolean supported = parameters.stream().allMatch(p -> p.is_cuda() && DType.of(p) == DType.FLOAT32);
        return supported ? Optional.of(new TensorTables(parameters, m, v)) : Optional.empty();
    }

    /** The kernel's tables in GPU memory: where the tensors are, and which chunk of which tensor each block updates. */
    private static final class TensorTables implements AdamWUpdate {
        private final Device device;
        private final long[] words;
        private final int chunks;
        private final Tensor tensors; // int64, [tensors, WORDS]
        private final Tensor chunkTensor; // int32, [chunks]: index of the chunk's tensor
        private final Tensor chunkStart; // int32, [chunks]: first element of the chunk, in units of CHUNK
        private Kernel kernel;

        TensorTables(List<Tensor> parameters, List<Tensor> m, List<Tensor> v) {
            device = Gpu.of(parameters.get(0)).device();
            words = new long[WORDS * parameters.size()];
            var indices = new ArrayList<Integer>();
            var starts = new ArrayList<Integer>();
            for (int i = 0; i < parameters.size(); i++) {
                long elements = parameters.get(i).numel();
                words[WORDS * i] = parameters.get(i).data_ptr().address();
                words[WORDS * i + 2] = m.get(i).data_ptr().address();
                words[WORDS * i + 3] = v.get(i).data_ptr().address();
                words[WORDS * i + 4] = elements;
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
        public void step(List<Tensor> gradients, AdamWScalars scalars) {
            if (chunks == 0) {
                return;
            }
            updateAddresses(gradients);
            kernel.launch(
                    new GridDim(chunks),
                    new BlockDim(THREADS),
                    0,
                    tensors,
                    chunkTensor,
                    chunkStart,
                    (float) (1 - scalars.learningRate() * scalars.weightDecay()),
                    (float) scalars.beta1(),
                    (float) (1 - scalars.beta1()),
                    (float) scalars.beta2(),
                    (float) (1 - scalars.beta2()),
                    (float) (scalars.learningRate() / (1 - Math.pow(scalars.beta1(), scalars.step()))),
                    (float) Math.sqrt(1 - Math.pow(scalars.beta2(), scalars.step())),
                    (float) scalars.eps());
        }

        /** Copies the addresses of the gradients to the GPU if they differ from those of the last step. */
        private void updateAddresses(List<Tensor> gradients) {
            boolean moved = kernel == null;
            for (int i = 0; i < gradients.size(); i++) {
                long address = gradients.get(i).data_ptr().address();
                moved |= words[WORDS * i + GRADIENT] != address;
                words[WORDS * i + GRADIENT] = address;
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
                aligned &= i % WORDS == ELEMENTS || words[i] % ALIGNMENT == 0;
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
