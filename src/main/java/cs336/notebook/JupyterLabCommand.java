package cs336.notebook;

import cs336.bench.LabCommand;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Unmatched;

/** The command {@code lab}: opens the notebooks in JupyterLab. */
@Command(
        name = "lab",
        customSynopsis = "cs336 lab [-hV] [<option of JupyterLab>...]",
        description = {
            "Opens the notebooks in JupyterLab.",
            "Finds JupyterLab on PATH, or where pip and conda install it. The notebooks' kernel, Java (cs336), does not"
                    + " need to be installed. It is rebuilt at its start if its sources have changed. Further"
                    + " options are passed to JupyterLab."
        },
        footerHeading = "%nExamples:%n",
        footer = {"    ./cs336 lab", "  On a remote machine:", "    ./cs336 lab --no-browser --port 8890"})
public final class JupyterLabCommand extends LabCommand {
    private static final String START = "notebooks/00-start-here.ipynb";
    private static final String SEARCH_PATH = "JUPYTER_PATH";

    @Unmatched
    private List<String> options = new ArrayList<>();

    @Override
    public Integer call() throws IOException, InterruptedException {
        Path root = Project.path("").normalize();
        String page = Files.exists(root.resolve(START)) ? START : "notebooks";
        List<String> command = new ArrayList<>(JupyterLab.ofThisMachine().command(root, page));
        command.addAll(options);
        var builder = new ProcessBuilder(command).inheritIO().directory(root.toFile());
        String others = System.getenv(SEARCH_PATH);
        builder.environment()
                .put(SEARCH_PATH, root.resolve("jupyter") + (others == null || others.isEmpty() ? "" : ":" + others));
        Process jupyter = builder.start();
        // Ctrl-C reaches Jupyter too, which asks whether to end; this process must not end before it.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> awaitEnd(jupyter)));
        return jupyter.waitFor();
    }

    private static void awaitEnd(Process jupyter) {
        try {
            jupyter.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
