package cs336.writeup;

import cs336.numbers.MeasuredTable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.commonmark.node.FencedCodeBlock;

/** The numbered figures and tables of a writeup, which links refer to. */
final class CrossReferences {
    private final Map<String, Target> figures = new LinkedHashMap<>();
    private final Map<String, Target> tablesByAddress = new LinkedHashMap<>();
    private final Map<FencedCodeBlock, NumberedTable> tables = new LinkedHashMap<>();

    /**
     * The target of a link.
     *
     * @param id id of its HTML element
     * @param number number of the figure or table, from 1
     */
    record Target(String id, int number) {}

    /** A table with its id and number. */
    record NumberedTable(MeasuredTable table, Target target) {}

    /** Numbers the figure with this address; returns false if there is one already. */
    boolean addFigure(String address) {
        String name = address.replaceAll(".*/|\\.[^.]*$", "");
        return figures.put(address, new Target("figure-" + name, figures.size() + 1)) == null;
    }

    /** Numbers the table of this block; returns false if there is one of the same name already. */
    boolean addTable(FencedCodeBlock block, MeasuredTable table) {
        int number = tables.size() + 1;
        var target = new Target("table-" + (table.name().isEmpty() ? number : table.name()), number);
        tables.put(block, new NumberedTable(table, target));
        return tablesByAddress.put("#" + target.id(), target) == null;
    }

    /** Returns the figure or table with this address, or null. */
    Target target(String address) {
        return figures.getOrDefault(address, tablesByAddress.get(address));
    }

    /** Returns the table of this block, or null if the block is code. */
    NumberedTable table(FencedCodeBlock block) {
        return tables.get(block);
    }
}
