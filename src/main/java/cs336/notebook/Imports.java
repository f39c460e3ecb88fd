package cs336.notebook;

import java.util.List;
import java.util.stream.Stream;

/** What a cell can name without importing it. */
public enum Imports {
    /** What IJava imports too: a notebook that runs with these alone finds its names there as well. */
    PORTABLE(
            "java.io.*",
            "java.math.*",
            "java.net.*",
            "java.util.*",
            "java.util.concurrent.*",
            "java.util.prefs.*",
            "java.util.regex.*"),

    /** For exploring: the rest of the standard library that notebooks use, and this project. */
    GENEROUS(
            "java.nio.file.*",
            "java.util.function.*",
            "java.util.stream.*",
            "tech.tablesaw.api.*",
            "cs336.basics.*",
            "cs336.bench.*",
            "cs336.report.*",
            "cs336.torch.*");

    private final List<String> names;

    Imports(String... names) {
        this.names = List.of(names);
    }

    /** Import statements; the generous ones come on top of the portable ones. */
    List<String> statements() {
        Stream<String> all = this == PORTABLE ? names.stream() : Stream.concat(PORTABLE.names.stream(), names.stream());
        return Stream.concat(all, Stream.of("static cs336.notebook.Display.*"))
                .map(name -> "import " + name + ";")
                .toList();
    }
}
