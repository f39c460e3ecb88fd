package cs336.basics;

import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.ProfilerRange;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;

/**
 * Attention in plain tensor operations, which stores all scores [T, S] in memory. Registered under the name
 * {@code plain}. Several threads may use one object.
 *
 * <p>Source: Vaswani et al., "Attention Is All You Need", 2017.
 */
public final class PlainAttention implements Attention {
    /** The last mask, cached because all layers of a model use the same one. */
    private Tensor mask;

    private long maskCapture; // see CudaGraph.captureInProgress
    private long maskInterception; // see OperatorInterceptor.interceptionInProgress

    @Override
    public String name() {
        return "plain";
    }

    @Override
    public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
        Attention.requireInputs(q, k, v);
        try (var scope = MemoryScope.open()) {
            Tensor scores = scores(q, k, causal); // [B, H, T, S]
            Tensor probabilities = softmax(scores); // [B, H, T, S]
            scores.close(); // the autograd graph keeps what the backward pass needs
            try (var range = ProfilerRange.of("attention.values")) {
                return scope.escape(probabilities.matmul(v));
            }
        }
    }

    private Tensor scores(Tensor q, Tensor k, boolean causal) {
        try (var range = ProfilerRange.of("attention.scores")) {
            Tensor scaled = q.mul(new Scalar(1 / Math.sqrt(q.size(-1)))); // [B, H, T, d]
            Tensor scores = scaled.matmul(k.transpose(-2, -1));
            scaled.close(); // not needed in the rest of the forward pass
            if (causal) {
                scores.add_(ownMask(q.size(-2), k.size(-2), scores));
            }
            return scores;
        }
    }

    private static Tensor softmax(Tensor scores) {
        try (var range = ProfilerRange.of("attention.softmax")) {
            return torch.softmax(scores, -1);
        }
    }

    @Override
    public synchronized void freeCache() {
        if (mask != null) {
            mask.close();
            mask = null;
        }
    }

    /** Returns the mask in a handle of its own, because another thread may replace and free the cached one. */
    private synchronized Tensor ownMask(long queries, long keys, Tensor scores) {
        return new Tensor(causalMask(queries, keys, scores));
    }

    /** Returns the cached mask [T, S]: 0 for keys j ≤ i, −∞ elsewhere, with the dtype and device of the scores. */
    Tensor causalMask(long queries, long keys, Tensor scores) {
        boolean fits = mask != null
                && mask.size(0) == queries
                && mask.size(1) == keys
                && DType.of(mask) == DType.of(scores)
                && mask.device().equals(scores.device())
                && maskCapture == CudaGraph.captureInProgress()
                && maskInterception == OperatorInterceptor.interceptionInProgress();
        if (!fits) {
            TensorOptions likeScores = scores.options();
            freeCache();
            mask = MemoryScope.keep(
                    torch.full(new long[] {queries, keys}, new Scalar(Double.NEGATIVE_INFINITY), likeScores));
            mask.triu_(1);
            maskCapture = CudaGraph.captureInProgress();
            maskInterception = OperatorInterceptor.interceptionInProgress();
        }
        return mask;
    }
}
