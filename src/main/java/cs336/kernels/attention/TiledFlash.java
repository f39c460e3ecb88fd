package cs336.kernels.attention;

import cs336.bench.ArgumentCheck;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelLog;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * FlashAttention-2 in tensor operations, on any device and bitwise reproducible: the readable form of the algorithm and
 * the reference that kernels are tested against. Each operation processes one tile of queries and one tile of keys of
 * all heads, so that only a few matrices [B·H, queryTile, keyTile] exist at a time.
 *
 * <p>Source: Dao, "FlashAttention-2", 2023, algorithms 1 and 2.
 *
 * @param queryTile queries per tile; the last tile may have fewer
 * @param keyTile keys per tile; the last tile may have fewer
 */
public record TiledFlash(int queryTile, int keyTile) implements FlashVariant {
    /** Tiles with 256 KiB of fp32 scores per head, large enough for efficient matrix multiplications. */
    public static final TiledFlash DEFAULT = new TiledFlash(256, 256);

    /** Index of a query that attends to all keys. */
    private static final long ATTENDS_TO_ALL = Long.MAX_VALUE;

    private static final long[] LAST = {-1};

    /** @throws IllegalArgumentException if a tile size is below 1 */
    public TiledFlash {
        ArgumentCheck.atLeast("queryTile", 1, queryTile);
        ArgumentCheck.atLeast("keyTile", 1, keyTile);
    }

    @Override
    public AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        FlashAttention.requireInputs(q, k, v);
        log("flash_forward", q);
        try (var scope = MemoryScope.open()) {
            Tensor queries = flat(q).mul(scale(q)); // [N, T, d] with N = B·H
            Tensor keys = flat(k); // [N, S, d]
            Tensor values = flat(v); // [N, S, d]
            long t = queries.size(1);
            Tensor o = zeros(queries); // [N, T, d]
            Tensor l = torch.zeros(new long[] {queries.size(0), t, 1}, queries.options()); // [N, T, 1]
            for (long i = 0; i < t; i += queryTile) {
                long rows = Math.min(queryTile, t - i);
                attend(
                        queries.narrow(1, i, rows),
                        keys,
                        values,
                        causal ? i : ATTENDS_TO_ALL,
                        o.narrow(1, i, rows),
                        l.narrow(1, i, rows));
            }
            Tensor output = o.to(q.scalar_type()).view_as(q);
            return new AttentionOutput(scope.escape(output), scope.escape(l.view(Tensors.leadingShape(q))));
        }
    }

    private static void log(String name, Tensor q) {
        String device = q.is_cuda() ? Gpu.of(q).architecture().toString() : "cpu";
        KernelLog.noteTensorOperations(name, "for " + DType.of(q) + " with d " + q.size(-1) + " on " + device);
    }

    /**
     * Computes attention from one tile of queries to all keys by online softmax. After each tile of keys, max is the
     * largest score so far, sum is the sum of exp(score − max), and o is the sum of exp(score − max) · value.
     *
     * @param i index of the first query, or {@link #ATTENDS_TO_ALL}
     * @param o receives the tile's output; initially zero
     * @param l receives the tile's log-sum-exp
     */
    private void attend(Tensor q, Tensor keys, Tensor values, long i, Tensor o, Tensor l) {
        try (var scope = MemoryScope.open()) {
            Tensor max = torch.full_like(l, new Scalar(Double.NEGATIVE_INFINITY)); // [N, rows, 1]
            Tensor sum = torch.zeros_like(l); // [N, rows, 1]
            long s = keys.size(1);
            long visible = i < s ? Math.min(s, i + q.size(1)) : s;
            for (long j = 0; j < visible; j += keyTile) {
                try (var tile = MemoryScope.open()) {
                    long columns = Math.min(keyTile, visible - j);
                    Tensor scores = scores(q, keys.narrow(1, j, columns), i, j); // [N, rows, columns]
                    Tensor newMax = torch.maximum(max, scores.amax(LAST, true));
                    Tensor shift = zeroWhereMinusInfinity(newMax);
                    Tensor p = scores.sub_(shift).exp_();
                    Tensor decay = max.sub(shift).exp_(); // rescales the sums to the new maximum
                    sum.mul_(decay).add_(p.sum(LAST, true, new ScalarTypeOptional()));
                    o.mul_(decay).baddbmm_(p, values.narrow(1, j, columns));
                    max.copy_(newMax);
                }
            }
            l.copy_(sum.log().add_(max));
            o.div_(sum.masked_fill_(sum.eq(new Scalar(0)), new Scalar(1)));
        }
    }

    @Override
    public AttentionGradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        FlashAttention.requireInputs(q, k, v);
        Tensors.requireDefined("o", o);
        Tensors.requireDefined("l", l);
        Tensors.requireDefined("dO", dO);
        log("flash_backward", q);
        try (var scope = MemoryScope.open()) {
            Tensor queries = flat(q).mul(scale(q)); // [N, T, d]
            Tensor keys = flat(k); // [N, S, d]
            Tensor values = flat(v); // [N, S, d]
            Tensor dOut = flat(dO); // [N, T, d]
            Tensor delta = dOut.mul(flat(o)).sum(LAST, true, new ScalarTypeOptional()); // D: [N, T, 1]
            Tensor l3 = l.reshape(delta.size(0), delta.size(1), 1); // [N, T, 1]
            Tensor logSumExp = zeroWhereMinusInfinity(l3);
            // A query without any key has no gradient for K, even if it contains −∞, which times 0 would be NaN.
            Tensor attending = queries.masked_fill(torch.isneginf(l3), new Scalar(0));
            Tensor dQ = zeros(queries);
            Tensor dK = zeros(keys);
            Tensor dV = zeros(values);
            long t = queries.size(1);
            long s = keys.size(1);
            for (long j = 0; j < s; j += keyTile) {
                long columns = Math.min(keyTile, s - j);
                for (long i = causal ? j : 0; i < t; i += queryTile) { // queries before j do not attend to this tile
                    long rows = Math.min(queryTile, t - i);
                    try (var tile = MemoryScope.open()) {
                        Tensor qTile = queries.narrow(1, i, rows);
                        Tensor kTile = keys.narrow(1, j, columns);
                        Tensor dOutTile = dOut.narrow(1, i, rows);
                        Tensor p = scores(qTile, kTile, causal ? i : ATTENDS_TO_ALL, j) // [N, rows, columns]
                                .sub_(logSumExp.narrow(1, i, rows))
                                .exp_();
                        dV.narrow(1, j, columns).baddbmm_(p.transpose(1, 2), dOutTile);
                        Tensor dP = dOutTile.bmm(values.narrow(1, j, columns).transpose(1, 2)); // [N, rows, columns]
                        Tensor dS = p.mul_(dP.sub_(delta.narrow(1, i, rows)));
                        dQ.narrow(1, i, rows).baddbmm_(dS, kTile);
                        dK.narrow(1, j, columns).baddbmm_(dS.transpose(1, 2), attending.narrow(1, i, rows));
                    }
                }
            }
            dQ.mul_(scale(q));
            return new AttentionGradients(
                    scope.escape(dQ.to(q.scalar_type()).view_as(q)),
                    scope.escape(dK.to(k.scalar_type()).view_as(k)),
                    scope.escape(dV.to(v.scalar_type()).view_as(v)));
        }
    }

    /**
     * Returns the scores of one tile, [N, rows, columns]; masked scores are −∞.
     *
     * @param i index of the first query, or {@link #ATTENDS_TO_ALL}
     * @param j index of the first key
     */
    private static Tensor scores(Tensor q, Tensor k, long i, long j) {
        Tensor scores = q.bmm(k.transpose(1, 2));
        long rows = scores.size(1);
        long columns = scores.size(2);
        if (j + columns - 1 > i) {
            TensorOptions bool = scores.options().dtype(new ScalarTypeOptional(ScalarType.Bool));
            Tensor masked = torch.ones(new long[] {rows, columns}, bool).triu_(i - j + 1);
            scores.masked_fill_(masked, new Scalar(Double.NEGATIVE_INFINITY));
        }
        return scores;
    }

    /** Replaces −∞, so that exp(−∞ − shift) is 0 and not NaN. */
    private static Tensor zeroWhereMinusInfinity(Tensor x) {
        return x.masked_fill(torch.isneginf(x), new Scalar(0));
    }

    private static Scalar scale(Tensor q) {
        return new Scalar(1 / Math.sqrt(q.size(-1)));
    }

    /** Reshapes [B, T, d] or [B, H, T, d] to [N, T, d], and casts 16-bit types to fp32. */
    private static Tensor flat(Tensor x) {
        Tensor wide = x.element_size() < Float.BYTES ? x.to(ScalarType.Float) : x;
        return wide.flatten(0, -3);
    }

    /** Returns contiguous zeros with the shape and dtype of a tensor. */
    private static Tensor zeros(Tensor like) {
        return torch.zeros(Tensors.shape(like), like.options());
    }
}
