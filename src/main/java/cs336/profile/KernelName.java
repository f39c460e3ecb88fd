package cs336.profile;

import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Short forms of C++ kernel names for tables and figures, without namespaces, parameters, and template arguments other
 * than the operation.
 *
 * <pre>{@code
 * void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>(…)         cutlass_80_simt_sgemm_128x64_8x5_tn_align1
 * void at::native::elementwise_kernel<128, 2, …BinaryFunctor<… MulFunctor …>>  elementwise_kernel: Mul
 * }</pre>
 */
public final class KernelName {
    private static final Pattern CUTLASS = Pattern.compile("cutlass::Kernel2?<([^<>]+)>.*", Pattern.DOTALL);

    /** Pattern that separates the details after the tile size in the names of a family of GEMM kernels. */
    private static final String XMMA_DETAILS = "(_xmma_gemm_.*_tilesize\\d+x\\d+x\\d+)_.*";

    /** The template argument that names the operation of a PyTorch kernel. */
    private static final Pattern OPERATION =
            Pattern.compile("(CUDAFunctor(?:OnSelf)?_\\w+|\\w+?)(?:Functor|_functor|Ops|_kernel(?:_cuda|_impl)?)\\b"
                    + "|CUDAFunctor(?:OnSelf)?_(\\w+)");

    /** Templates that only wrap the one that names the operation. */
    private static final Set<String> WRAPPERS = Set.of("Binary", "AUnary", "BUnary", "gpu", "elementwise", "Unary");

    private KernelName() {}

    /** Returns the short form of a kernel name. Different kernels may have the same short form. */
    public static String brief(String name) {
        String plain = name.replace("(anonymous namespace)::", "").replaceFirst("^void ", "");
        Matcher cutlass = CUTLASS.matcher(plain);
        if (cutlass.matches()) {
            return cutlass.group(1);
        }
        int template = plain.indexOf('<');
        int parameters = plain.indexOf('(');
        if (template < 0 && parameters < 0) {
            return plain.replaceFirst(XMMA_DETAILS, "$1");
        }
        int end = template < 0 ? parameters : parameters < 0 ? template : Math.min(template, parameters);
        String base = plain.substring(0, end);
        if (base.indexOf(' ') >= 0) {
            return name; // Memcpy HtoD (Pinned -> Device)
        }
        base = base.substring(base.lastIndexOf(':') + 1);
        String operation = template == end ? operation(plain.substring(template)) : "";
        return operation.isEmpty() ? base : base + ": " + operation;
    }

    private static String operation(String arguments) {
        Matcher found = OPERATION.matcher(arguments);
        while (found.find()) {
            String operation = found.group(1) != null ? found.group(1) : found.group(2);
            if (!WRAPPERS.contains(operation)) {
                return operation;
            }
        }
        return "";
    }
}
