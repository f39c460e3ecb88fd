package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JupyterLabTest {
    private static final Path ROOT = Path.of("/project");

    @TempDir
    private Path folder;

    private Path install(String file) throws IOException {
        Path installed = folder.resolve(file);
        Files.createDirectories(installed.getParent());
        Files.createFile(installed);
        assertTrue(installed.toFile().setExecutable(true));
        return installed;
    }

    private List<String> command(String page) throws IOException {
        return new JupyterLab(List.of(folder.resolve("bin"), folder.resolve("usr/bin")), folder.resolve("home"))
                .command(ROOT, page);
    }

    @Test
    void messageSaysHowToInstallJupyterLab() throws IOException {
        Files.createDirectories(folder.resolve("bin/jupyter-lab")); // a folder is no program
        String message =
                assertThrows(IOException.class, () -> command("notebooks")).getMessage();
        assertTrue(message.contains("pip install jupyterlab") && message.contains("environment.yml"), message);
        assertEquals(1, message.lines().count());
    }

    @Test
    void pathComesBeforeTheHomeFolderAndLabBeforeNotebook() throws IOException {
        Path notebook = install("usr/bin/jupyter-notebook");
        assertEquals(notebook.toString(), command("notebooks").get(0));
        assertTrue(command("notebooks").contains("--NotebookApp.default_url=/tree/notebooks"));
        assertTrue(command("notebooks/a.ipynb").contains("--NotebookApp.default_url=/notebooks/notebooks/a.ipynb"));
        Path conda = install("home/miniforge3/envs/cs336/bin/jupyter-lab");
        assertEquals(conda.toString(), command("notebooks").get(0));
        Path pip = install("home/.local/bin/jupyter-lab");
        assertEquals(pip.toString(), command("notebooks").get(0));
        Path found = install("usr/bin/jupyter-lab");
        assertEquals(
                List.of(
                        found.toString(),
                        "--ServerApp.root_dir=/project",
                        "--LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb"),
                command("notebooks/00-start-here.ipynb"));
    }

    @Test
    void kernelHasANameOfItsOwnAndStartsTheScript() throws IOException {
        Path specification = Path.of("jupyter/kernels/cs336/kernel.json");
        String program = JsonParser.parseString(Files.readString(specification))
                .getAsJsonObject()
                .getAsJsonArray("argv")
                .get(0)
                .getAsString();
        Path script = Path.of(
                program.replace("{resource_dir}", specification.getParent().toString()));
        assertTrue(Files.isExecutable(script), script.toString());
        assertEquals(
                List.of(specification.getParent()),
                Files.list(Path.of("jupyter/kernels")).toList());
    }
}
