package cs336.compile.fuse;

import cs336.compile.fuse.FusionGroup.Level;
import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.List;

/**
 * The C++ expressions of the members of a group. Member i is {@code r<i>} if it is one number per row, and
 * {@code v<i>[i]} in a loop over the VEC columns of a thread otherwise.
 */
final class MemberExpressions {
    private final FusionGroup group;
    private final KernelLoads loads;

    MemberExpressions(FusionGroup group, KernelLoads loads) {
        this.group = group;
        this.loads = loads;
    }

    /** Returns the expression of a pointwise member, rounded to its dtype. */
    String of(Operation member) {
        DType compute = PointwiseOperator.computeType(member);
        PointwiseOperator function = (PointwiseOperator) member.operator();
        List<String> operands = new ArrayList<>();
        for (int i = 0; i < member.arguments().size(); i++) {
            boolean isCondition = function == PointwiseOperator.WHERE && i == 0;
            Argument argument = member.arguments().get(i);
            operands.add(isCondition ? operand(member, argument) : converted(member, argument, compute));
        }
        if (function == PointwiseOperator.INDEX) {
            return index(member);
        }
        return rounded(member, function.cuda(operands));
    }

    /** Returns the index of an element in its last dimension, which may cover several rows. */
    private String index(Operation member) {
        long[] shape = member.output().layout().shape();
        long size = shape[shape.length - 1];
        boolean isRow = group.level(member) == Level.ROW;
        if (!isRow && size == group.columns()) {
            return "column + i";
        }
        String position = isRow ? "row" : (group.hasReduction() ? "row * COLUMNS + column" : "column") + " + i";
        return size == (isRow ? group.rows() : group.elements()) ? position : "(" + position + ") % " + size;
    }

    /** Returns the operand of a reduction in the dtype of the computation. */
    String reduced(Operation reduction) {
        return converted(reduction, reduction.view(0), PointwiseOperator.computeType(reduction));
    }

    /** Returns an expression rounded to the dtype of the member's output. */
    String rounded(Operation member, String expression) {
        DType out = member.output().dtype();
        DType compute = PointwiseOperator.computeType(member);
        if (out.isReducedFloatingPoint()) {
            String number = compute == DType.FLOAT32 ? expression : "(float)(" + expression + ")";
            return "roundTo(" + number + ", " + CudaType.of(out) + "())";
        }
        return out == compute ? expression : "(" + CudaType.of(out) + ")(" + expression + ")";
    }

    /** Returns the expression of an argument, in the dtype in which registers hold it. */
    String operand(Operation member, Argument argument) {
        if (!(argument instanceof View view)) {
            double number = argument.number();
            DType compute = PointwiseOperator.computeType(member);
            number = compute == DType.FLOAT32 ? (float) number : number; // infinite if it is too large
            if (Double.isNaN(number)) {
                return "NOT_A_NUMBER";
            } else if (Double.isInfinite(number)) {
                return number > 0 ? "INFINITE" : "(-INFINITE)";
            }
            return switch (compute) {
                case FLOAT32 -> Float.toString((float) number) + "f";
                case INT64 -> integer(argument.integer());
                default -> Double.toString(number);
            };
        }
        Level level = group.level(view.value());
        if (level == null) {
            return loads.expressions().get(loads.of(member, view));
        }
        int id = group.indexOf(view.value());
        return level == Level.ROW ? "r" + id : "v" + id + "[i]";
    }

    /** Returns an operand in the dtype of the computation. */
    private String converted(Operation member, Argument argument, DType compute) {
        DType dtype = argument instanceof View view ? CudaType.inRegisters(view.dtype()) : compute;
        return (dtype == compute ? "" : "(" + CudaType.of(compute) + ")") + operand(member, argument);
    }

    private static String integer(long number) {
        return number == Long.MIN_VALUE ? "(" + (number + 1) + "LL - 1)" : number + "LL"; // C++ negates a literal
    }
}
