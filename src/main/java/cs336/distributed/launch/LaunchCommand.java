package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.Torch;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The command {@code launch}: runs a {@link RankProgram} on several ranks. */
@Command(
        name = "launch",
        description = {
            "Runs a program on several ranks, which communicate through collectives. With --processes it starts the"
                    + " ranks on this machine. Otherwise this process is one of the ranks that srun or torchrun"
                    + " started, described by the environment variables SLURM_PROCID, … or RANK, WORLD_SIZE, …; if"
                    + " CS336_RUN_TOKEN is set to the same random text on all of them, they cannot join the rendezvous"
                    + " of another run.",
            "With --max-restarts all ranks start again after one has failed. As under torchrun, the program finds the"
                    + " number of restarts in TORCHELASTIC_RESTART_COUNT, and continues from its last checkpoint.",
            "A program is a class that implements RankProgram<String[], …>. Arguments after its name are passed to it."
                    + " The command prints the value that the program returns on each rank, and prefixes every line"
                    + " with the rank."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  Four ranks on this machine:",
            "    ./cs336 launch --processes 4 Hello",
            "  Two nodes with three ranks each, in a batch script:",
            "    srun --nodes 2 --ntasks-per-node 3 ./cs336 launch --timeout 30 Hello",
            "  A program of your own:",
            "    javac -cp target/cs336.jar -d /tmp/mine Mine.java",
            "    ./cs336 launch --processes 4 --class-path /tmp/mine Mine",
            "",
            "Exit codes: 0 success, 1 a rank failed, 2 invalid arguments, 3 this rank lost contact with the others."
        })
public final class LaunchCommand extends LabCommand {
    /** Packages whose programs may be given by their simple class name. */
    private static final List<String> PACKAGES = List.of("cs336.distributed.launch", "cs336.distributed.bench");

    @Option(
            names = "--processes",
            paramLabel = "<n>",
            description = "number of ranks to start on this machine, at most " + Launcher.MOST_PROCESSES
                    + ". Default: none, this process is a rank of srun or torchrun")
    private Integer processes;

    @Option(
            names = "--class-path",
            paramLabel = "<path>",
            description = "folders and JAR files with the program and its classes, separated by ':'")
    private String classPath;

    @Mixin
    private final BackendOption backend = new BackendOption();

    @Option(
            names = "--device",
            paramLabel = "<kind>",
            description = "cpu or cuda. Default: cpu for gloo, cuda for nccl")
    private String device;

    @Mixin
    private final TimeoutOptions timeouts = new TimeoutOptions();

    @Mixin
    private final RestartOption restart = new RestartOption();

    @Option(
            names = "--threads",
            paramLabel = "<n>",
            description = "CPU threads per operation on each rank, at most " + Torch.MOST_THREADS
                    + ". Default: SLURM_CPUS_PER_TASK if a rank of srun has it, otherwise the number of cores"
                    + " divided by the number of ranks")
    private Integer threads;

    @Parameters(
            index = "0",
            paramLabel = "PROGRAM",
            description =
                    "fully qualified class name, or the simple name of a class in cs336.distributed.launch or .bench")
    private String program;

    @Parameters(
            index = "1..*",
            arity = "0..*",
            paramLabel = "ARGUMENT",
            showDefaultValue = Help.Visibility.NEVER,
            description = "arguments of the program")
    private String[] arguments = {};

    /** Passes everything after the program's name to the program, including options. */
    @Spec
    void stopAtProgramName(CommandSpec command) {
        command.parser().stopAtPositional(true);
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        Thread thread = Thread.currentThread();
        ClassLoader previous = thread.getContextClassLoader();
        try (URLClassLoader loader = new URLClassLoader(checked(this::urls), LaunchCommand.class.getClassLoader())) {
            thread.setContextClassLoader(loader); // also used for the values that ranks return
            return launch();
        } finally {
            thread.setContextClassLoader(previous);
        }
    }

    private int launch() throws IOException, InterruptedException {
        if (processes == null) {
            World world = checked(World::fromEnvironment);
            return join(world, checked(() -> configured(Launcher.joining(world))), checked(this::program));
        }
        Launcher launcher = checked(() -> {
            int ranks = Launcher.requireProcesses("--processes", processes);
            LaunchOptions.requireGpus(backend.value(), ranks);
            return configured(Launcher.of(ranks));
        });
        return start(launcher, checked(this::program));
    }

    private int start(Launcher launcher, Class<? extends RankProgram<String[], Serializable>> type)
            throws InterruptedException {
        List<Serializable> values = launcher.run(type, arguments);
        for (int rank = 0; rank < values.size(); rank++) {
            if (values.get(rank) != null) {
                String prefix = "[" + rank + "] ";
                String.valueOf(values.get(rank)).lines().forEach(line -> System.out.println(prefix + line));
            }
        }
        return 0;
    }

    private int join(World world, Launcher launcher, Class<? extends RankProgram<String[], Serializable>> type)
            throws InterruptedException {
        PrintStream out = System.out, err = System.err;
        String label = "[" + world.rank() + "] ";
        System.setOut(LabelledStream.of(label, out));
        System.setErr(LabelledStream.of(label, err));
        try {
            Serializable value = launcher.run(type, arguments).get(world.rank());
            if (value != null) {
                System.out.println(value);
            }
            return 0;
        } finally {
            System.out.close();
            System.err.close();
            System.setOut(out);
            System.setErr(err);
        }
    }

    private Launcher configured(Launcher launcher) {
        launcher.backend(backend.value());
        timeouts.apply(launcher);
        restart.check(processes == null);
        restart.apply(launcher);
        if (device != null) {
            DeviceKind kind = ArgumentCheck.oneOf("--device", device, List.of(DeviceKind.values()));
            if (kind == DeviceKind.CUDA) {
                Device.cuda(0); // checks that there is a GPU before any rank starts
            }
            launcher.device(kind);
        }
        if (threads != null) {
            launcher.threads(Launcher.requireThreads("--threads", threads));
        }
        return launcher.classPath(classPathEntries());
    }

    private List<Path> classPathEntries() {
        if (classPath == null) {
            return List.of();
        }
        var entries = new ArrayList<Path>();
        for (String entry : classPath.split(File.pathSeparator, -1)) {
            Path path = Path.of(entry);
            if (entry.isBlank() || !(Files.isDirectory(path) || entry.endsWith(".jar") && Files.isReadable(path))) {
                throw new IllegalArgumentException(
                        "--class-path must consist of existing folders and JAR files, not '" + entry + "'");
            }
            entries.add(path);
        }
        return entries;
    }

    private URL[] urls() throws IOException {
        var urls = new ArrayList<URL>();
        for (Path entry : classPathEntries()) {
            urls.add(entry.toUri().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    @SuppressWarnings("unchecked") // a program with other types fails when it runs
    private Class<? extends RankProgram<String[], Serializable>> program() {
        for (String name : Stream.concat(PACKAGES.stream().map(p -> p + "." + program), Stream.of(program))
                .toList()) {
            try {
                Class<?> found =
                        Class.forName(name, false, Thread.currentThread().getContextClassLoader());
                if (RankProgram.class.isAssignableFrom(found)) {
                    Launcher.requirePublic(found);
                    requireTakesStrings(found);
                    return (Class<? extends RankProgram<String[], Serializable>>) found;
                }
                throw new IllegalArgumentException(
                        "program must be a class that implements RankProgram, not '" + program + "'");
            } catch (ClassNotFoundException e) {
                // Try the next name.
            } catch (LinkageError e) {
                throw new IllegalArgumentException("program '" + program + "' cannot be loaded: " + e.getMessage(), e);
            }
        }
        throw new IllegalArgumentException("program must be a fully qualified class name or a class in "
                + String.join(" or ", PACKAGES) + ", not '" + program + "'");
    }

    /** Checks that the program's argument is an array of strings. */
    private void requireTakesStrings(Class<?> found) {
        var others = new TreeSet<String>();
        for (Method method : found.getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals("run")
                    && !method.isBridge()
                    && types.length == 2
                    && types[0] == ProcessGroup.class) {
                if (types[1].isAssignableFrom(String[].class)) {
                    return;
                }
                others.add(types[1].getSimpleName());
            }
        }
        throw new IllegalArgumentException("program must be a RankProgram<String[], …>; '" + program + "' takes a "
                + String.join(" or ", others) + ", which a command line cannot give");
    }
}
