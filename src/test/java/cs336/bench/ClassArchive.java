package cs336.bench;

import com.google.gson.Gson;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import cs336.train.TrainCommand;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import jdk.jshell.JShell;
import org.junit.platform.launcher.LauncherSession;
import org.junit.platform.launcher.LauncherSessionListener;
import picocli.CommandLine;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Table;

/**
 * The class data archive of the child processes of tests. It holds parsed classes of the JDK and of the JAR files on
 * the class path, which a rank or a notebook's process otherwise parses at each start.
 *
 * <p>The build passes {@code -XX:SharedArchiveFile} to the JVMs of tests, from which {@link ChildJvm} inherits it. The
 * first of them creates the archive while its first tests run. A JVM ignores an archive that does not exist or does not
 * fit its class path.
 */
public final class ClassArchive implements LauncherSessionListener {
    private static final String FLAG = "-XX:SharedArchiveFile=";

    @Override
    public void launcherSessionOpened(LauncherSession session) {
        List<String> flags = ManagementFactory.getRuntimeMXBean().getInputArguments();
        flags.stream().filter(flag -> flag.startsWith(FLAG)).findFirst().ifPresent(flag -> {
            var thread = new Thread(() -> createIfOutdated(Path.of(flag.substring(FLAG.length()))));
            thread.setDaemon(true);
            thread.start();
        });
    }

    private static void createIfOutdated(Path archive) {
        String jars = Arrays.stream(ChildJvm.classPath().split(File.pathSeparator))
                .filter(entry -> Files.isRegularFile(Path.of(entry)))
                .collect(Collectors.joining(File.pathSeparator));
        Path keyFile = archive.resolveSibling(archive.getFileName() + ".key");
        try (var lock = FileChannel.open(
                        archive.resolveSibling(archive.getFileName() + ".lock"),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE);
                var held = lock.tryLock()) {
            String key = System.getProperty("java.vm.version") + " " + jars;
            if (held != null
                    && !(Files.exists(keyFile) && Files.readString(keyFile).equals(key))) {
                create(archive, jars);
                Files.writeString(keyFile, key);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void create(Path archive, String jars) throws IOException, InterruptedException {
        Path list = archive.resolveSibling(archive.getFileName() + ".list");
        java(ChildJvm.classPath(), "-XX:DumpLoadedClassList=" + list, ClassArchive.class.getName());
        Path created = archive.resolveSibling(archive.getFileName() + ".new");
        java(jars, "-Xshare:dump", "-XX:SharedClassListFile=" + list, FLAG + created);
        Files.move(created, archive, StandardCopyOption.ATOMIC_MOVE);
    }

    private static void java(String classPath, String... arguments) throws IOException, InterruptedException {
        var command = new ArrayList<String>();
        command.add(ChildJvm.javaExecutable());
        command.add("-XX:TieredStopAtLevel=1"); // C2 would take as long as the rest
        command.addAll(List.of(arguments));
        var builder = new ProcessBuilder(command)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().put("CLASSPATH", classPath);
        Process process = builder.start();
        var killer = new Thread(process::destroyForcibly);
        Runtime.getRuntime().addShutdownHook(killer);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + " ended with exit code " + process.exitValue());
        }
        Runtime.getRuntime().removeShutdownHook(killer);
    }

    /**
     * Loads the classes of a rank, of a sweep's process, of a notebook's process, of a table and of a training command.
     */
    public static void main(String[] arguments) throws IOException {
        Path folder = Files.createTempDirectory("class-archive");
        Path store = folder.resolve("store");
        try (var shell = JShell.builder().executionEngine("local").build();
                var group = ProcessGroup.join(
                        World.local(0, 1, 29_500), CollectiveBackend.GLOO, Duration.ofSeconds(20), store)) {
            group.allGather(1);
            shell.eval("import java.util.*;");
            shell.eval("List.of(1 + 1)");
            new Gson().toJson(group.allGather(1));
        }
        Table.create(IntColumn.create("number", 1)).write().toString("csv");
        Table.read().string("number\n1\n", "csv");
        String model = "--d-model 8 --layers 1 --heads 2 --vocab 256 --context 4 --batch 1 --dtype bf16 --device cpu";
        var training = new ArrayList<>(List.of((model + " --steps 1 --text").split(" ")));
        training.add(Project.path("README.md").toString());
        new CommandLine(new TrainCommand()).execute(training.toArray(String[]::new));
        Files.deleteIfExists(store);
        Files.delete(folder);
    }
}
