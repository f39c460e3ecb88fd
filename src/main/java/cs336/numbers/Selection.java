package cs336.numbers;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Rows of one problem's measurements.
 *
 * @param problem name of the file, without ending
 * @param machine name of the folder; null for the one that was chosen once for all
 * @param filters allowed values by column; within a column any of them will do
 */
record Selection(String problem, String machine, Map<String, List<String>> filters) {

    /** The rows among these that pass further filters; a column filtered again is filtered anew. */
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
