package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.World;
import cs336.torch.DeviceKind;
import java.io.PrintStream;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs a program of ranks from a shell, or as what srun and torchrun start. */
@Command(
        name = "launch",
        description = {
            "Runs a program on several ranks, which talk through collectives. With --processes it starts them on this machine;"
                    + " otherwise this process is one of the ranks that srun or torchrun has started, as the variables"
                    + " SLURM_PROCID … or RANK, WORLD_SIZE, … say.",
            "A program is a class that implements RankProgram<String[], …>; what follows its name is its own. Values that it"
                    + " gives are printed. What ranks print has the rank before it."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  Four ranks here:",
            "    cs336 launch --processes 4 Hello",
            "  Two nodes of three ranks each, from a batch script:",
            "    srun --nodes 2 --ntasks-per-node 3 ./cs336 launch --timeout 30 Hello",
            "",
            "Exit codes: 0 all went well, 1 a rank failed, 2 wrong use, 3 this rank lost the others."
        })
public final class LaunchCommand implements Callable<Integer> {
    /** Packages whose programs can be named without the package. */
    private static final List<String> PACKAGES = List.of("cs336.distributed.launch", "cs336.distributed.bench");

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--processes",
            paramLabel = "<n>",
            description = "start so many ranks here. Default: be one of srun's or torchrun's")
    private Integer processes;

    @Mixin
    private final BackendOption backend = new BackendOption();

    @Option(
            names = "--device",
            paramLabel = "<kind>",
            description = "cpu or cuda. Default: cpu for gloo, cuda for nccl")
    private String device;

    @Mixin
    private final TimeoutOptions timeouts = new TimeoutOptions();

    @Option(
            names = "--threads",
            paramLabel = "<n>",
            description = "threads of an operation on each rank. Default: the processors shared out")
    private Integer threads;

    @Parameters(
            index = "0",
            paramLabel = "PROGRAM",
            description = "a class, by its name in cs336.distributed or in full")
    private String program;

    @Parameters(index = "1..*", arity = "0..*", paramLabel = "ARGUMENT", description = "what the program takes")
    private String[] arguments = {};

    /** What stands behind the program's name is the program's, options too. */
    @Spec
    void passOptionsOn(CommandSpec of) {
        of.parser().stopAtPositional(true);
    }

    @Override
    public Integer call() throws InterruptedException {
        try {
            return processes != null ? startHere() : takePart(World.fromEnvironment());
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private int startHere() throws InterruptedException {
        LaunchOptions.requireCards(backend.value());
        List<Serializable> values = with(Launcher.of(processes)).run(program(), arguments);
        for (int rank = 0; rank < values.size(); rank++) {
            if (values.get(rank) != null) System.out.println("[" + rank + "] " + values.get(rank));
        }
        return 0;
    }

    private int takePart(World world) throws InterruptedException {
        PrintStream out = System.out, err = System.err;
        String label = "[" + world.rank() + "] ";
        System.setOut(LabelledStream.of(label, out));
        System.setErr(LabelledStream.of(label, err));
        try {
            Serializable value =
                    with(Launcher.joining(world)).run(program(), arguments).get(world.rank());
            if (value != null) System.out.println(value);
            return 0;
        } finally {
            System.out.close();
            System.err.close();
            System.setOut(out);
            System.setErr(err);
        }
    }

    private Launcher with(Launcher launcher) {
        launcher.backend(backend.value());
        timeouts.apply(launcher);
        if (device != null) launcher.device(kind(device));
        if (threads != null) launcher.threads(threads);
        return launcher;
    }

    private static DeviceKind kind(String name) {
        List<String> names = Arrays.stream(DeviceKind.values())
                .map(kind -> kind.name().toLowerCase(Locale.ROOT))
                .toList();
        return DeviceKind.values()[names.indexOf(ArgumentCheck.oneOf("device", name, names))];
    }

    @SuppressWarnings("unchecked") // what it takes shows when it is run
    private Class<? extends RankProgram<String[], Serializable>> program() {
        for (String name : Stream.concat(PACKAGES.stream().map(p -> p + "." + program), Stream.of(program))
                .toList()) {
            try {
                Class<?> found = Class.forName(name);
                if (RankProgram.class.isAssignableFrom(found)) {
                    return (Class<? extends RankProgram<String[], Serializable>>) found;
                }
                throw new IllegalArgumentException("program '" + program + "' is not a RankProgram");
            } catch (ClassNotFoundException e) {
                // It may have the other name.
            }
        }
        throw new IllegalArgumentException(
                "program '" + program + "' is unknown: the name of a class is needed, in full" + " or as it is in "
                        + String.join(" or ", PACKAGES));
    }
}
