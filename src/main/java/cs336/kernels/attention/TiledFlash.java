package cs336.kernels.attention;

import cs336.bench.ArgumentCheck;
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
 * FlashAttention-2 in plain tensor operations, on any device and with the same bits each time. It shows the algorithm
 * and is what kernels are checked against; each operation works on one tile of queries and one tile of keys, of all
 * heads at once, so at most a few matrices of B·H × queryTile × keyTile exist at a time.
 *
 * <p>Source: Dao, "FlashAttention-2", 2023, algorithms 1 and 2.
 *
 * @param queryTile how many queries a tile has; the last one may have fewer
 * @param keyTile how many keys a tile has; the last one may have fewer
 */
public record TiledFlash(int queryTile, int keyTile) implements FlashVariant {
    /** Tiles whose scores, for one head in fp32, fill a quarter of a megabyte: large enough for fast products. */
    public static final TiledFlash DEFAULT = new TiledFlash(256, 256);

    /** Stands for the number of a query that comes after all keys. */
    private static final long SEES_ALL = Long.MAX_VALUE;

    private static final long[] LAST = {-1};

    /** @throws IllegalArgumentException if a tile has no rows */
    public TiledFlash {
        ArgumentCheck.atLeast("queryTile", 1, queryTile);
        ArgumentCheck.atLeast("keyTile", 1, keyTile);
    }

    @Override
    public Attended forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        note("flash_forward", q);
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
                        causal ? i : SEES_ALL,
                        o.narrow(1, i, rows),
                        l.narrow(1, i, rows));
            }
            Tensor output = o.to(q.scalar_type()).view_as(q);
            return new Attended(scope.escape(output), scope.escape(l.view(Tensors.leadingShape(q))));
        }
    }

    private static void note(String name, Tensor q) {
        KernelLog.noteTensorOperations(name, "for " + DType.of(q) + (q.is_cuda() ? "" : " on cpu"));
    }

    /**
     * Attends from one tile of queries to all keys, tile by tile. After each, max is the largest score so far, sum the
     * sum of exp(score − max), and o the sum of exp(score − max) · value.
     *
     * @param i number of the first query, or {@link #SEES_ALL}
     * @param o takes the tile's output; zero at first
     * @param l takes the tile's log-sum-exp
     */
    private void attend(Tensor q, Tensor keys, Tensor values, long i, Tensor o, Tensor l) {
        try (var scope = MemoryScope.open()) {
            Tensor max = torch.full_like(l, new Scalar(Double.NEGATIVE_INFINITY)); // [N, rows, 1]
            Tensor sum = torch.zeros_like(l); // [N, rows, 1]
            long s = keys.size(1);
            long seen = i < s ? Math.min(s, i + q.size(1)) : s;
            for (long j = 0; j < seen; j += keyTile) {
                try (var tile = MemoryScope.open()) {
                    long columns = Math.min(keyTile, seen - j);
                    Tensor scores = scores(q, keys.narrow(1, j, columns), i, j); // [N, rows, columns]
                    Tensor newMax = torch.maximum(max, scores.amax(LAST, true));
                    Tensor shift = zeroWhereMinusInfinity(newMax);
                    Tensor p = scores.sub_(shift).exp_();
                    Tensor decay = max.sub(shift).exp_(); // what the sums so far are worth under the new maximum
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
    public Gradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        note("flash_backward", q);
        try (var scope = MemoryScope.open()) {
            Tensor queries = flat(q).mul(scale(q)); // [N, T, d]
            Tensor keys = flat(k); // [N, S, d]
            Tensor values = flat(v); // [N, S, d]
            Tensor dOut = flat(dO); // [N, T, d]
            Tensor delta = dOut.mul(flat(o)).sum(LAST, true, new ScalarTypeOptional()); // D: [N, T, 1]
            Tensor logSumExp = zeroWhereMinusInfinity(l.reshape(delta.size(0), delta.size(1), 1));
            Tensor dQ = zeros(queries);
            Tensor dK = zeros(keys);
            Tensor dV = zeros(values);
            long t = queries.size(1);
            long s = keys.size(1);
            for (long j = 0; j < s; j += keyTile) {
                long columns = Math.min(keyTile, s - j);
                for (long i = causal ? j : 0; i < t; i += queryTile) { // no query before j sees this tile
                    long rows = Math.min(queryTile, t - i);
                    try (var tile = MemoryScope.open()) {
                        Tensor qTile = queries.narrow(1, i, rows);
                        Tensor kTile = keys.narrow(1, j, columns);
                        Tensor dOutTile = dOut.narrow(1, i, rows);
                        Tensor p = scores(qTile, kTile, causal ? i : SEES_ALL, j) // [N, rows, columns]
                                .sub_(logSumExp.narrow(1, i, rows))
                                .exp_();
                        dV.narrow(1, j, columns).baddbmm_(p.transpose(1, 2), dOutTile);
                        Tensor dP = dOutTile.bmm(values.narrow(1, j, columns).transpose(1, 2)); // [N, rows, columns]
                        Tensor dS = p.mul_(dP.sub_(delta.narrow(1, i, rows)));
                        dQ.narrow(1, i, rows).baddbmm_(dS, kTile);
                        dK.narrow(1, j, columns).baddbmm_(dS.transpose(1, 2), qTile);
                    }
                }
            }
            dQ.mul_(scale(q));
            return new Gradients(
                    scope.escape(dQ.to(q.scalar_type()).view_as(q)),
                    scope.escape(dK.to(k.scalar_type()).view_as(k)),
                    scope.escape(dV.to(v.scalar_type()).view_as(v)));
        }
    }

    /**
     * Scores of one tile: [N, rows, columns]. Where its last key is after its first query, those that are not seen are
     * −∞.
     *
     * @param i number of the first query, or {@link #SEES_ALL}
     * @param j number of the first key
     */
    private static Tensor scores(Tensor q, Tensor k, long i, long j) {
        Tensor scores = q.bmm(k.transpose(1, 2));
        long rows = scores.size(1);
        long columns = scores.size(2);
        if (j + columns - 1 > i) {
            TensorOptions truths = scores.options().dtype(new ScalarTypeOptional(ScalarType.Bool));
            Tensor hidden = torch.ones(new long[] {rows, columns}, truths).triu_(i - j + 1);
            scores.masked_fill_(hidden, new Scalar(Double.NEGATIVE_INFINITY));
        }
        return scores;
    }

    /** exp(−∞ − 0) is the 0 that is meant, where exp(−∞ − (−∞)) is not a number. */
    private static Tensor zeroWhereMinusInfinity(Tensor x) {
        return x.masked_fill(torch.isneginf(x), new Scalar(0));
    }

    private static Scalar scale(Tensor q) {
        return new Scalar(1 / Math.sqrt(q.size(-1)));
    }

    /** [B, T, d] or [B, H, T, d] → [N, T, d], in the type of the sums. */
    private static Tensor flat(Tensor x) {
        Tensor wide = x.element_size() < Float.BYTES ? x.to(ScalarType.Float) : x;
        return wide.flatten(0, -3);
    }

    /** Zeros of this shape and type, in row-major order whatever the layout of the other is. */
    private static Tensor zeros(Tensor like) {
        return torch.zeros(Tensors.shape(like), like.options());
    }
}
