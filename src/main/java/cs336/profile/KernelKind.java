package cs336.profile;

import java.util.Locale;
import java.util.regex.Pattern;

/**
 * The kinds of GPU work. A kernel has the first kind, in this order, whose pattern matches its name; {@link #OURS} also
 * depends on the operator that launched it.
 */
public enum KernelKind {
    /** Communication between GPUs: NCCL. */
    COMMUNICATION("nccl|nvshmem"),
    /** Fused attention of PyTorch, cuDNN or FlashAttention: GEMMs and softmax in one kernel. */
    ATTENTION("pytorch_flash|fmha|cudnn.*sdpa|attention_kernel_batched"),
    /** Matrix multiplications of cuBLAS, cuDNN and CUTLASS, including split-K reductions. */
    MATMUL("gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|dot_kernel"),
    /** Kernels of this project: their name is a C identifier, and no PyTorch operator launched them. */
    OURS(null),
    /** Softmax and log-softmax. */
    SOFTMAX("softmax"),
    /** Data movement and casts: memory copies and sets, changes of layout or dtype, concatenation. */
    COPY("^memcpy|^memset|copy_kernel|copy_device_to_device|catarray"),
    /** Sums, means and norms. */
    REDUCTION("reduce_kernel|layer_norm|rms_norm|gammabeta|nll_loss|cumsum|scan"),
    /** Element-wise operations, including multi-tensor optimizer updates. */
    ELEMENTWISE("elementwise|multi_tensor|foreach|triu_tril|dropout"),
    /** Everything else: embedding look-ups and their gradients, sorting, random numbers. */
    OTHER("");

    private static final Pattern C_IDENTIFIER = Pattern.compile("[A-Za-z_][A-Za-z_0-9]*");

    private final Pattern names;

    KernelKind(String names) {
        this.names = names == null ? null : Pattern.compile(names);
    }

    /** Returns the kind of the kernels of this name that PyTorch operators launch. */
    static KernelKind named(String name) {
        String lowerCase = name.toLowerCase(Locale.ROOT);
        for (KernelKind candidate : values()) {
            if (candidate != OURS && candidate.names.matcher(lowerCase).find()) {
                return candidate;
            }
        }
        return OTHER;
    }

    /**
     * Returns the kind of an event.
     *
     * @param named the kind of {@link #named}, which callers with many events of one name keep
     */
    static KernelKind of(DeviceEventKind kind, String name, KernelKind named, HostEvent launch) {
        if (kind == DeviceEventKind.MEMCPY || kind == DeviceEventKind.MEMSET) {
            return COPY;
        }
        return named.compareTo(OURS) > 0 && isOurs(name, launch) ? OURS : named;
    }

    private static boolean isOurs(String name, HostEvent launch) {
        HostEvent operator = launch == null ? null : launch.operator();
        boolean byPyTorch = operator != null && operator.name().startsWith("aten::");
        return !byPyTorch && C_IDENTIFIER.matcher(name).matches();
    }

    /** Returns the kind in lower case, as in {@code matmul}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
