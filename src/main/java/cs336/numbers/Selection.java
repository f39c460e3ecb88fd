package cs336.numbers;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A selection of rows from the measurements of one problem.
 *
 * @param problem file name without extension
 * @param machine name of the machine's folder; null for the default machine
 * @param filters allowed values by column
 */
record Selection(String problem, String machine, Map<String, List<String>> filters) {

    /** Returns this selection with further filters, which replace existing filters of the same column. */
    Selection refined(Map<String, List<String>> further) {
        var all = new LinkedHashMap<>(filters);
        all.putAll(further);
        return new Selection(problem, machine, all);
    }

    @Override
    public String toString() {
        String conditions = filters.entrySet().stream()
                .map(filter -> filter.getKey() + "=" + String.join(", ", filter.getValue()))
                .collect(Collectors.joining(", "));
        return problem + (machine == null ? "" : "@" + machine) + (filters.isEmpty() ? "" : "[" + conditions + "]");
    }
}
