package cs336.writeup;

import cs336.numbers.TextTable;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.commonmark.node.FencedCodeBlock;
import org.commonmark.node.Node;

/** The numbered figures, tables, equations and cited works of a writeup, which links and citations refer to. */
final class CrossReferences {
    private final Map<String, Target> figures = new LinkedHashMap<>();
    private final Map<String, Target> others = new LinkedHashMap<>(); // tables and equations
    private final Map<FencedCodeBlock, NumberedTable> tables = new LinkedHashMap<>();
    private final Map<String, Integer> works = new LinkedHashMap<>();
    private final Map<String, Integer> counts = new HashMap<>();
    private String prefix = "";

    /**
     * The target of a link.
     *
     * @param id id of its HTML element
     * @param number its number, as in {@code 3} or, in the appendix of chapter 8, {@code A8.3}; with parentheses for an
     *     equation
     */
    record Target(String id, String number) {}

    /**
     * The content of a table.
     *
     * @param name name for links; may be empty
     * @param caption parsed caption
     * @param cells cells of a measured table; otherwise null
     * @param rows parsed rows of a written table; otherwise null
     */
    record TableContent(String name, Node caption, TextTable cells, Node rows) {}

    /** A table with its id and number. */
    record NumberedTable(TableContent table, Target target) {}

    /** Sets the chapter to whose appendix the following elements belong; 0 for elements before the appendices. */
    void beginAppendix(int chapter) {
        prefix = chapter == 0 ? "" : "A" + chapter + ".";
    }

    private String next(String kind) {
        return prefix + counts.merge(kind + prefix, 1, Integer::sum);
    }

    /** Numbers the figure with this address; returns false if there is one already. */
    boolean addFigure(String address) {
        String name = address.replaceAll(".*/|\\.[^.]*$", "");
        return figures.put(address, new Target("figure-" + name, next("figure"))) == null;
    }

    /** Numbers the table of this block; returns false if there is one of the same name already. */
    boolean addTable(FencedCodeBlock block, TableContent table) {
        String number = next("table");
        var target = new Target("table-" + (table.name().isEmpty() ? number : table.name()), number);
        tables.put(block, new NumberedTable(table, target));
        return others.put("#" + target.id(), target) == null;
    }

    /** Numbers an equation by its id and returns its number; null if there is one of the same id already. */
    String addEquation(String id) {
        var target = new Target(id, "(" + next("equation") + ")");
        return others.put("#" + id, target) == null ? target.number() : null;
    }

    /** Numbers a work of the list of references; returns false if there is one with this key already. */
    boolean addWork(String key) {
        return works.putIfAbsent(key, works.size() + 1) == null;
    }

    /** Returns the number of a work, or null if the list of references does not contain it. */
    Integer work(String key) {
        return works.get(key);
    }

    /** Returns the figure, table or equation with this address, or null. */
    Target target(String address) {
        return figures.getOrDefault(address, others.get(address));
    }

    /** Returns the table of this block, or null if the block is code. */
    NumberedTable table(FencedCodeBlock block) {
        return tables.get(block);
    }
}
