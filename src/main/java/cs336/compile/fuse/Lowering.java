package cs336.compile.fuse;

import static cs336.compile.fuse.PointwiseOperator.*;

import cs336.compile.fuse.ReductionOperator.ReductionKind;
import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * The pass that rewrites PyTorch's operators as {@link PointwiseOperator} and {@link ReductionOperator} operations,
 * which can be fused. Operators without a rule stay as they are. The formulas are those of PyTorch's kernels, and each
 * rounding to a 16-bit dtype stays where PyTorch rounds.
 *
 * <p>Writes in place that replace all elements of a tensor become operations with a new output. Complex tensors become
 * real tensors with a last dimension of size 2.
 */
final class Lowering {
    private static final int MEAN = 1; // PyTorch's code of the reduction of a loss

    private final Program program;
    private final Device device;
    private final List<Operation> operations = new ArrayList<>();
    private final Map<ProgramValue, ProgramValue> replacements = new HashMap<>();
    private final Map<ProgramValue, Constant> numbers = new HashMap<>(); // values whose elements are all one number
    private final Set<ProgramValue> outside;
    private ProgramValue seed; // of a run; null if there are no random numbers
    private int sequences; // of random numbers
    private int size;

    private Lowering(Program program, Device device) {
        this.program = program;
        this.device = device;
        size = program.size();
        outside = program.outside();
    }

    /** Returns the program with the operators of its operations lowered. */
    static Program of(Program program, Device device) {
        return new Lowering(program, device).run();
    }

    private Program run() {
        for (Operation operation : program.operations()) {
            Operation replaced = operation.withViews(this::replaced);
            ProgramValue out = target(replaced);
            if (out == null || !lower(replaced, out)) {
                operations.add(withOverwrites(replaced));
            } else if (!replaced.overwrites().isEmpty()) {
                replacements.put(replaced.overwrites().get(0), out);
            }
        }
        if (seed != null) {
            operations.add(0, Operation.of(new RandomSeed(), List.of(), seed));
        }
        return program.withOperations(operations).withOutputs(this::replaced).withSize(size);
    }

    /** Appends the lowered operation, or returns false if there is no rule for it. */
    private boolean lower(Operation operation, ProgramValue out) {
        List<Argument> in = operation.arguments();
        Layout layout = out.layout();
        if (!isHere(out) || !operation.reads().stream().allMatch(view -> isHere(view.value()))) {
            return false;
        }
        if (isComplex(layout)) {
            return operation.operator().toString().equals("mul.Tensor") && complexMul(operation, out);
        }
        boolean hasLowerableOperands = operation.reads().stream().allMatch(view -> isLowerable(view.dtype()));
        if (!hasLowerableOperands || !isLowerable(layout.dtype())) {
            return false;
        }
        String name = functionalName(operation.operator().toString());
        boolean isFloating = layout.dtype().isFloatingPoint(); // arithmetic of integers overflows
        return switch (name) {
            case "_to_copy", "clone" -> emit(out, CAST, in.get(0));
            case "neg", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "where.self" -> emitNamed(out, name, in);
            case "maximum", "minimum" -> arePromotedExactly(in) && emitNamed(out, name, in);
            case "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar", "eq.Scalar", "ne.Scalar" ->
                areComparedExactly(in) && emitNamed(out, name, in);
            case "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor", "eq.Tensor", "ne.Tensor" ->
                areComparedExactly(in) && emitNamed(out, name, in);
            case "mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar" ->
                isFloating && arePromotedExactly(in) && emitNamed(out, name, in);
            case "add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar" -> isFloating && addition(out, name, in);
            case "reciprocal" -> emit(out, DIV, constant(1), in.get(0));
            case "relu" -> emit(out, MAXIMUM, in.get(0), constant(0));
            case "sigmoid" -> emit(out, CAST, sigmoid(in.get(0), layout));
            case "silu" -> emit(out, DIV, in.get(0), onePlusExpOfMinus(in.get(0), layout));
            case "silu_backward" -> siluBackward(out, in.get(0), in.get(1));
            case "gelu", "gelu_backward" -> gelu(out, in);
            case "pow.Tensor_Scalar" ->
                isFloating && power(out, in.get(0), in.get(1).number());
            case "ones_like" -> emit(out, CAST, constant(1));
            case "zeros_like" -> emit(out, CAST, constant(0));
            case "mean.dim", "sum.dim_IntList" ->
                isFloating && sum(out, (View) in.get(0), in.get(1), name.startsWith("mean"));
            case "_softmax", "_log_softmax" -> softmax(out, (View) in.get(0), in.get(1), name.equals("_log_softmax"));
            case "_softmax_backward_data", "_log_softmax_backward_data" ->
                softmaxBackward(out, (View) in.get(0), (View) in.get(1), in.get(2), name.startsWith("_log"));
            case "native_layer_norm" -> layerNorm(operation);
            case "native_layer_norm_backward" -> layerNormBackward(operation);
            case "nll_loss_forward" -> negativeLogLikelihood(operation);
            case "nll_loss_backward" -> negativeLogLikelihoodBackward(out, in);
            case "bernoulli.float", "bernoulli.p" ->
                emit(out, CAST, isBelow(in.get(1).number(), out.layout()));
            case "native_dropout" -> dropout(operation);
            case "native_dropout_backward" -> emit(out, MUL, wide(layout, MUL, in.get(0), in.get(1)), in.get(2));
            default -> false;
        };
    }

    /** Returns the name of the operator that computes the same without writing in place. */
    private static String functionalName(String name) {
        return name.endsWith("_") ? name.substring(0, name.length() - 1) : name.replace("_.", ".");
    }

    // ---- rules, which return false if they do not apply

    private boolean addition(ProgramValue out, String name, List<Argument> in) {
        double alpha = in.get(2).number();
        if (!arePromotedExactly(in.subList(0, 2))) {
            return false;
        }
        Argument scaled = alpha == 1 ? in.get(1) : wide(out.layout(), MUL, in.get(1), constant(alpha));
        return emitNamed(out, name, List.of(in.get(0), scaled));
    }

    private View onePlusExpOfMinus(Argument x, Layout like) {
        return wide(like, ADD, wide(like, EXP, wide(like, NEG, x)), constant(1));
    }

    private View sigmoid(Argument x, Layout like) {
        return wide(like, DIV, constant(1), onePlusExpOfMinus(x, like));
    }

    /** g · σ(x) · (1 + x · (1 − σ(x))). */
    private boolean siluBackward(ProgramValue out, Argument g, Argument x) {
        Layout like = out.layout();
        View sigmoid = sigmoid(x, like);
        View slope = wide(like, ADD, wide(like, MUL, x, wide(like, SUB, constant(1), sigmoid)), constant(1));
        return emit(out, MUL, wide(like, MUL, g, sigmoid), slope);
    }

    /** x · Φ(x), and g · (Φ(x) + x · φ(x)), with the standard normal distribution Φ and its density φ. */
    private boolean gelu(ProgramValue out, List<Argument> in) {
        if (!"none".equals(((Constant) in.get(in.size() - 1)).value())) {
            return false; // the approximation by tanh
        }
        Layout like = out.layout();
        boolean backward = in.size() == 3;
        Argument x = in.get(backward ? 1 : 0);
        View erf = wide(like, ERF, wide(like, MUL, x, constant(Math.sqrt(0.5))));
        View distribution = wide(like, MUL, wide(like, ADD, erf, constant(1)), constant(0.5));
        if (!backward) {
            return emit(out, MUL, x, distribution);
        }
        View square = wide(like, MUL, wide(like, MUL, x, x), constant(-0.5));
        View density = wide(like, MUL, wide(like, EXP, square), constant(1 / Math.sqrt(2 * Math.PI)));
        return emit(out, MUL, in.get(0), wide(like, ADD, distribution, wide(like, MUL, x, density)));
    }

    private boolean power(ProgramValue out, Argument x, double exponent) {
        if (exponent == 1) {
            return emit(out, CAST, x);
        } else if (exponent == 2) {
            return emit(out, MUL, x, x);
        }
        return exponent == 3 && emit(out, MUL, wide(out.layout(), MUL, x, x), x);
    }

    private boolean sum(ProgramValue out, View x, Argument dims, boolean mean) {
        ReductionOperator sum = reduction(ReductionKind.SUM, x, dims);
        if (sum == null) {
            return false;
        }
        ProgramValue total = mean ? newValue(like(wideType(x.dtype()), out.layout())) : out;
        operations.add(Operation.of(sum, List.of(x), total));
        long count = x.layout().elements() / out.layout().elements();
        return !mean || emit(out, DIV, new View(total), constant(count));
    }

    private boolean softmax(ProgramValue out, View x, Argument dim, boolean log) {
        ReductionOperator max = rowReduction(ReductionKind.MAX, x, dim);
        if (max == null) {
            return false;
        }
        Layout like = out.layout();
        View shifted = wide(like, SUB, x, reduceWide(max, x));
        View power = wide(like, EXP, shifted);
        View sum = reduceWide(new ReductionOperator(ReductionKind.SUM, max.dims()), power);
        return log ? emit(out, SUB, shifted, wide(sum.layout(), LOG, sum)) : emit(out, DIV, power, sum);
    }

    /** (g − Σ g · y) · y for y = softmax(x), and g − exp(y) · Σ g for y = log softmax(x). */
    private boolean softmaxBackward(ProgramValue out, View g, View y, Argument dim, boolean log) {
        ReductionOperator sum = rowReduction(ReductionKind.SUM, y, dim);
        if (sum == null) {
            return false;
        }
        Layout like = out.layout();
        if (log) {
            return emit(out, SUB, g, wide(like, MUL, wide(like, EXP, y), reduceWide(sum, g)));
        }
        View total = reduceWide(sum, wide(like, MUL, g, y));
        return emit(out, MUL, wide(like, SUB, g, total), y);
    }

    /** (x − mean) · rstd · weight + bias, and the statistics of each row: its mean and rstd = 1 ÷ √(variance + ε). */
    private boolean layerNorm(Operation operation) {
        List<Argument> in = operation.arguments();
        View x = (View) in.get(0);
        ReductionOperator sum = sumOfLast(x, in.get(1));
        if (sum == null) {
            return false;
        }
        ProgramValue out = operation.output();
        Layout like = out.layout();
        View mean = mean(sum, x);
        View centered = wide(like, SUB, x, mean);
        View variance = mean(sum, wide(like, MUL, centered, centered));
        View rstd = wide(variance.layout(), RSQRT, wide(variance.layout(), ADD, variance, in.get(4)));
        View normalized = wide(like, MUL, centered, rstd);
        View weighted = isNone(in.get(2)) ? normalized : wide(like, MUL, normalized, in.get(2));
        if (isNone(in.get(3))) {
            emit(out, CAST, weighted);
        } else {
            emit(out, ADD, weighted, in.get(3));
        }
        emit(operation.outputs().get(1), CAST, mean);
        return emit(operation.outputs().get(2), CAST, rstd);
    }

    /**
     * With the normalized input n, and g = dy · weight: dx = (g − mean(g) − n · mean(g · n)) · rstd; the gradients of
     * weight and bias are sums of dy · n and dy over all rows.
     */
    private boolean layerNormBackward(Operation operation) {
        List<Argument> in = operation.arguments();
        View dy = (View) in.get(0);
        View x = (View) in.get(1);
        ReductionOperator sum = sumOfLast(x, in.get(2));
        int leading = sum == null ? 0 : x.shape().length - sum.dims().size();
        if (leading == 0) {
            return false;
        }
        ProgramValue dx = operation.output();
        Layout like = dx.layout();
        View normalized = wide(like, MUL, wide(like, SUB, x, in.get(3)), in.get(4));
        View g = isNone(in.get(5)) ? dy : wide(like, MUL, dy, in.get(5));
        View along = wide(like, MUL, normalized, mean(sum, wide(like, MUL, g, normalized)));
        emit(dx, MUL, wide(like, SUB, wide(like, SUB, g, mean(sum, g)), along), in.get(4));
        var overAll = new ReductionOperator(
                ReductionKind.SUM, IntStream.range(0, leading).boxed().toList());
        List<View> terms = List.of(wide(like, MUL, dy, normalized), dy);
        for (int i = 0; i < terms.size(); i++) {
            ProgramValue gradient = operation.outputs().get(1 + i);
            if (gradient != null) {
                operations.add(Operation.of(overAll, List.of(terms.get(i)), gradient));
            }
        }
        return true;
    }

    /** Returns the sum over the last dimensions, whose sizes a constant lists, or null if it cannot be fused. */
    private ReductionOperator sumOfLast(View x, Argument sizes) {
        long[] last = LongStream.range(-((long[]) ((Constant) sizes).value()).length, 0)
                .toArray();
        return rowReduction(ReductionKind.SUM, x, new Constant(last, null));
    }

    private View mean(ReductionOperator sum, View x) {
        View total = reduceWide(sum, x);
        double count = x.layout().elements() / total.layout().elements();
        return wide(total.layout(), DIV, total, constant(count));
    }

    private static boolean isNone(Argument argument) {
        return argument instanceof Constant constant && constant.value() == null;
    }

    /** The mean of −logp[target] over the rows whose target is not the ignored index, and the number of these rows. */
    private boolean negativeLogLikelihood(Operation operation) {
        List<Argument> in = operation.arguments();
        View logp = (View) in.get(0);
        View target = (View) in.get(1);
        if (!isPlainMean(logp.shape(), in.get(2), in.get(3), in.get(4))) {
            return false;
        }
        ProgramValue loss = operation.output();
        ProgramValue count = operation.outputs().get(1);
        View selected = wide(logp.layout(), WHERE, isTarget(logp.layout(), target), logp, constant(0));
        View ofRow = reduceWide(new ReductionOperator(ReductionKind.SUM, List.of(1)), selected);
        var overRows = new ReductionOperator(ReductionKind.SUM, List.of(0));
        Layout perRow = Layout.contiguous(ofRow.dtype(), target.shape());
        View valid = wide(perRow, CAST, pointwise(like(DType.BOOL, perRow), NE, target, in.get(4)));
        View flat = new View(ofRow.value(), perRow);
        operations.add(Operation.of(overRows, List.of(valid), count));
        View sum = reduceWide(overRows, flat);
        Layout scalar = loss.layout();
        return emit(loss, DIV, wide(scalar, NEG, new View(sum.value(), scalar)), new View(count));
    }

    /** −g ÷ count at the target of each row, 0 elsewhere. */
    private boolean negativeLogLikelihoodBackward(ProgramValue out, List<Argument> in) {
        View target = (View) in.get(2);
        if (!isPlainMean(out.shape(), in.get(3), in.get(4), in.get(5))) {
            return false;
        }
        View g = (View) in.get(0);
        View count = (View) in.get(6);
        View each = wide(g.layout(), NEG, wide(g.layout(), DIV, g, count));
        return emit(out, WHERE, isTarget(out.layout(), target), each, constant(0));
    }

    /**
     * Returns whether a loss is an unweighted mean over the rows of a matrix whose ignored index is no column. A row
     * that the ignored index marks then has no target.
     */
    private static boolean isPlainMean(long[] shape, Argument weight, Argument reduction, Argument ignored) {
        return shape.length == 2
                && isNone(weight)
                && reduction.number() == MEAN
                && (ignored.number() < 0 || ignored.number() >= shape[1]);
    }

    /** Returns for each element of [rows, columns] whether its column is the target of its row. */
    private View isTarget(Layout like, View target) {
        View column = pointwise(Layout.contiguous(DType.INT64, like.shape()), INDEX);
        Layout rows = target.layout();
        long[] shape = {rows.shape()[0], 1};
        long[] strides = {rows.strides()[0], 0};
        var asColumn = new View(target.value(), new Layout(rows.dtype(), shape, strides, rows.offset(), false));
        return pointwise(like(DType.BOOL, like), EQ, column, asColumn);
    }

    /** x · mask ÷ (1 − p) with a random mask that is 0 with probability p, and the mask. */
    private boolean dropout(Operation operation) {
        List<Argument> in = operation.arguments();
        if (Boolean.FALSE.equals(((Constant) in.get(2)).value())) {
            return false; // not in training mode
        }
        ProgramValue out = operation.output();
        ProgramValue mask = operation.outputs().get(1);
        double kept = 1 - in.get(1).number();
        emit(mask, CAST, isBelow(kept, out.layout()));
        View masked = wide(out.layout(), MUL, in.get(0), new View(mask));
        return emit(out, MUL, masked, constant(kept == 0 ? 0 : 1 / kept));
    }

    /** Returns for each element whether a new random number between 0 and 1 is below a bound. */
    private View isBelow(double bound, Layout like) {
        seed = seed == null ? new ProgramValue(size++, RandomSeed.LAYOUT) : seed;
        View number = pointwise(Layout.contiguous(DType.INT64, like.elements()), INDEX);
        View index = new View(number.value(), like(DType.INT64, like));
        var sequence = new Constant((long) sequences++, null);
        View random = pointwise(like(DType.INT64, like), RANDOM, new View(seed), sequence, index);
        var integer = new Constant(Math.round(bound * (1L << Integer.SIZE)), null);
        return pointwise(like(DType.BOOL, like), LT, random, integer);
    }

    private boolean complexMul(Operation operation, ProgramValue out) {
        if (operation.reads().size() != 2
                || operation.reads().stream()
                        .anyMatch(view ->
                                !isComplex(view.layout()) || view.layout().conjugated())) {
            return false;
        }
        ProgramValue real = newValue(out.layout().asReal());
        replacements.put(out, real);
        Argument[] pairs = operation.reads().stream()
                .map(view -> new View(view.value(), view.layout().asReal()))
                .toArray(Argument[]::new);
        return emit(real, COMPLEX_MUL, pairs);
    }

    // ---- building blocks

    /** Returns the reduction of the dimensions that a constant lists, or null if it cannot be fused. */
    private ReductionOperator reduction(ReductionKind kind, View x, Argument dims) {
        int rank = x.shape().length;
        if (x.layout().elements() == 0 || rank == 0) {
            return null;
        }
        Object listed = ((Constant) dims).value();
        long[] given =
                listed instanceof long[] many ? many : listed instanceof Long one ? new long[] {one} : new long[0];
        LongStream reduced = given.length == 0 ? LongStream.range(0, rank) : Arrays.stream(given);
        return new ReductionOperator(
                kind, reduced.mapToObj(dim -> Math.floorMod(dim, rank)).sorted().toList());
    }

    /** Returns a reduction like {@link #reduction} if its dimensions are the innermost in memory, otherwise null. */
    private ReductionOperator rowReduction(ReductionKind kind, View x, Argument dims) {
        ReductionOperator reduction = reduction(kind, x, dims);
        return reduction != null && reduction.isPerRow(x.layout()) ? reduction : null;
    }

    /** Appends a reduction to fp32 or fp64 that keeps the reduced dimensions with size 1. */
    private View reduceWide(ReductionOperator reduction, View x) {
        long[] shape = x.shape().clone();
        reduction.dims().forEach(dim -> shape[dim] = 1);
        int[] order = reduction.iterationOrder(x.layout()); // the results have the input's order in memory
        ProgramValue out = newValue(Layout.dense(wideType(x.dtype()), order, shape));
        operations.add(Operation.of(reduction, List.of(x), out));
        return new View(out);
    }

    /** Appends a function with a result in fp32 or fp64. */
    private View wide(Layout like, PointwiseOperator function, Argument... arguments) {
        return pointwise(like(wideType(like.dtype()), like), function, arguments);
    }

    private View pointwise(Layout layout, PointwiseOperator function, Argument... arguments) {
        ProgramValue out = newValue(layout);
        emit(out, function, arguments);
        return new View(out);
    }

    /** Appends the function that has the name of an operator of PyTorch, without its overload. */
    private boolean emitNamed(ProgramValue out, String name, List<Argument> arguments) {
        String function = name.split("\\.")[0].toUpperCase(Locale.ROOT);
        return emit(out, PointwiseOperator.valueOf(function), arguments.toArray(Argument[]::new));
    }

    /**
     * Returns whether a computation in fp32, fp64 or int64 reads the same numbers as PyTorch, which casts operands to a
     * common dtype. A tensor without dimensions has less influence on this dtype than others, and integers wrap around.
     */
    private static boolean arePromotedExactly(List<Argument> operands) {
        List<View> views = views(operands);
        Set<DType> dtypes = views.stream().map(View::dtype).collect(Collectors.toSet());
        if (dtypes.size() == 1) {
            return views.size() == operands.size() || !dtypes.contains(DType.INT32) && !dtypes.contains(DType.UINT8);
        }
        boolean isWide = Stream.of(DType.FLOAT32, DType.FLOAT64, DType.BOOL).anyMatch(dtypes::contains)
                || dtypes.stream().noneMatch(DType::isFloatingPoint);
        Set<Boolean> haveDimensions =
                views.stream().map(view -> view.shape().length > 0).collect(Collectors.toSet());
        return isWide && haveDimensions.size() == 1;
    }

    private static List<View> views(List<Argument> operands) {
        return operands.stream().flatMap(operand -> operand.tensors().stream()).toList();
    }

    /** Like {@link #arePromotedExactly}; PyTorch rounds a number to the 16-bit dtype that it compares it with. */
    private static boolean areComparedExactly(List<Argument> operands) {
        boolean isHalf = views(operands).stream().anyMatch(view -> view.dtype().isReducedFloatingPoint());
        return arePromotedExactly(operands)
                && (!isHalf
                        || operands.stream()
                                .filter(Constant.class::isInstance)
                                .allMatch(number -> Math.abs(number.number()) <= 256
                                        && number.number() == Math.rint(number.number())));
    }

    /** Appends a function, and returns true as the result of a rule. */
    private boolean emit(ProgramValue out, PointwiseOperator function, Argument... arguments) {
        long[] shape = out.shape();
        List<Argument> broadcast = new ArrayList<>();
        for (Argument argument : arguments) {
            Argument number = argument instanceof View view ? numbers.get(view.value()) : argument;
            broadcast.add(number == null ? ((View) argument).broadcastTo(shape) : number);
        }
        if (function == CAST && broadcast.get(0) instanceof Constant number && out.dtype() == DType.FLOAT32) {
            numbers.put(out, number);
        }
        return operations.add(Operation.of(function, broadcast, out));
    }

    private ProgramValue newValue(Layout layout) {
        return new ProgramValue(size++, layout);
    }

    private static Constant constant(double number) {
        return new Constant(number, null);
    }

    /** Returns a layout with the strides of a dense one. */
    private static Layout like(DType dtype, Layout layout) {
        return new Layout(dtype, layout.shape(), layout.strides(), 0, false);
    }

    private static DType wideType(DType dtype) {
        return dtype == DType.FLOAT64 ? DType.FLOAT64 : DType.FLOAT32;
    }

    private static boolean isComplex(Layout layout) {
        return layout.dtype() == DType.COMPLEX64;
    }

    private static boolean isLowerable(DType dtype) {
        return dtype != DType.COMPLEX64 && dtype != DType.UINT64;
    }

    /** Returns whether generated kernels can access the value. A function may also use tensors of another device. */
    private boolean isHere(ProgramValue value) {
        return value.isOn(device.kind());
    }

    // ---- values

    /**
     * Returns the output of an operation as a dense value, or null if it has another form. A write in place to all
     * elements of an intermediate value gets a new value.
     */
    private ProgramValue target(Operation operation) {
        if (operation.overwrites().isEmpty()) {
            ProgramValue out = operation.outputs().isEmpty() ? null : operation.output();
            return out != null && out.layout().isDense() && out.layout().offset() == 0 ? out : null;
        }
        ProgramValue end = operation.overwrites().get(0);
        View written = operation.reads().get(0);
        boolean whole = operation.overwrites().size() == 1
                && operation.creates().size() == 1
                && !isComplex(written.layout())
                && !outside.contains(end.root())
                && written.layout().isDense()
                && written.layout().offset() == 0
                && written.layout().elements() == end.root().layout().elements()
                && written.dtype() == end.root().dtype();
        return whole ? newValue(written.layout()) : null;
    }

    /** Returns an operation that is not lowered; writes in place to a replaced value go to the replacement. */
    private Operation withOverwrites(Operation operation) {
        List<ProgramValue> overwrites = new ArrayList<>();
        for (ProgramValue end : operation.overwrites()) {
            ProgramValue replacement = replacements.get(end.overwritten());
            if (replacement != null) {
                replacements.put(end, new ProgramValue(size++, replacement));
            }
            overwrites.add(replacements.getOrDefault(end, end));
        }
        return operation.withOverwrites(overwrites);
    }

    private View replaced(View view) {
        ProgramValue value = replacements.get(view.value());
        return value == null ? view : new View(value, view.layout());
    }
}
