package cs336.notebook;

import cs336.charts.TextResource;
import java.util.List;
import java.util.stream.Stream;

/** The imports that are in effect in every cell. */
public enum Imports {
    /**
     * The imports of IJava and of the startup script {@code jupyter/imports.jshell}, so that a notebook also runs on
     * IJava.
     */
    PORTABLE(
            "java.io.*",
            "java.math.*",
            "java.net.*",
            "java.util.*",
            "java.util.concurrent.*",
            "java.util.prefs.*",
            "java.util.regex.*"),

    /** The portable imports, more of the standard library, and all packages of this project. */
    GENEROUS(
            "java.nio.file.*",
            "java.util.function.*",
            "java.util.stream.*",
            "cs336.distributed.bench.*",
            "cs336.distributed.collectives.*",
            "cs336.distributed.launch.*",
            "cs336.distributed.training.*",
            "cs336.kernels.attention.*",
            "cs336.kernels.norms.*",
            "cs336.kernels.runtime.*",
            "cs336.precision.*",
            "cs336.profile.*",
            "cs336.profile.memory.*",
            "cs336.scaling.*",
            "cs336.scaling.laws.*",
            // These names stay unambiguous when a cell imports org.bytedeco.pytorch.*.
            "java.util.concurrent.Future",
            "java.util.function.Function",
            "java.util.stream.Stream",
            "cs336.distributed.collectives.ProcessGroup");

    private static final String STARTUP_SCRIPT = "imports.jshell";

    private final List<String> names;

    Imports(String... names) {
        this.names = List.of(names);
    }

    /** Returns the import statements, one each. */
    List<String> statements() {
        Stream<String> packages = PORTABLE.names.stream();
        if (this == GENEROUS) {
            packages = Stream.concat(packages, names.stream());
        }
        return Stream.of(
                        packages.map(name -> "import " + name + ";"),
                        TextResource.read(Imports.class, STARTUP_SCRIPT).lines(),
                        Stream.of("import static cs336.notebook.Display.*;"))
                .flatMap(statements -> statements)
                .toList();
    }
}
