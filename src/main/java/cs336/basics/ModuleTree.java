package cs336.basics;

import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;

/**
 * The text form of a module: a tree of its layers with shapes and numbers of parameters. Consecutive layers that look
 * the same, as the blocks of a Transformer, are one branch.
 */
final class ModuleTree {
    private ModuleTree() {}

    /** The names of consecutive layers that look the same, the line of such a layer, and the lines of its children. */
    private record Branch(List<String> names, String head, List<String> below) {
        List<String> lines() {
            String name = names.size() == 1
                    ? names.get(0)
                    : names.get(0) + " … " + names.get(names.size() - 1) + " (" + names.size() + " ×)";
            List<String> lines = new ArrayList<>(List.of(name + ": " + head));
            lines.addAll(below);
            return lines;
        }
    }

    static String of(NnModule module) {
        List<String> lines = new ArrayList<>(List.of(head(module)));
        lines.addAll(below(module));
        return String.join("\n", lines);
    }

    private static String head(NnModule module) {
        String shapes = module.ownNamedParameters().entrySet().stream()
                .map(parameter -> parameter.getKey() + " " + shape(parameter.getValue()))
                .collect(Collectors.joining(", "));
        long count = module.parameters().stream()
                .filter(parameter -> !parameter.isNull())
                .mapToLong(Tensor::numel)
                .sum();
        return module.typeName()
                + (shapes.isEmpty() ? "" : " (" + shapes + ")")
                + (count == 0 ? "" : String.format(Locale.ROOT, ", %,d parameters", count));
    }

    private static String shape(Tensor parameter) {
        return parameter.isNull() ? "closed" : Arrays.toString(Tensors.shape(parameter));
    }

    private static List<String> below(NnModule module) {
        List<Branch> branches = new ArrayList<>();
        for (Map.Entry<String, NnModule> child : module.namedChildren().entrySet()) {
            String head = head(child.getValue());
            List<String> below = below(child.getValue());
            Branch last = branches.isEmpty() ? null : branches.get(branches.size() - 1);
            if (last != null && last.head.equals(head) && last.below.equals(below)) {
                last.names.add(child.getKey());
            } else {
                branches.add(new Branch(new ArrayList<>(List.of(child.getKey())), head, below));
            }
        }
        List<String> lines = new ArrayList<>();
        for (int b = 0; b < branches.size(); b++) {
            boolean isLast = b == branches.size() - 1;
            List<String> branch = branches.get(b).lines();
            lines.add((isLast ? "└─ " : "├─ ") + branch.get(0));
            branch.stream().skip(1).forEach(line -> lines.add((isLast ? "   " : "│  ") + line));
        }
        return lines;
    }
}
