package cs336.notebook;

import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/**
 * A search for JupyterLab on this machine.
 *
 * @param path the folders of executables, in the order of {@code PATH}
 * @param home the home folder, in which pip and conda install
 */
record JupyterLab(List<Path> path, Path home) {
    private static final List<String> CONDA =
            List.of("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba", ".conda");

    /** Returns a search of this process's {@code PATH} and this user's home folder. */
    static JupyterLab ofThisMachine() {
        List<Path> path = Arrays.stream(System.getenv().getOrDefault("PATH", "").split(File.pathSeparator))
                .filter(folder -> !folder.isEmpty())
                .map(Path::of)
                .toList();
        return new JupyterLab(path, Path.of(System.getProperty("user.home")));
    }

    /**
     * Returns the command line that opens a page of the project in JupyterLab, or in Jupyter Notebook if there is no
     * JupyterLab.
     *
     * @param root the folder that the file browser shows
     * @param page the notebook or folder to open, relative to the root
     * @throws IOException if neither is found; the message contains the installation command
     */
    List<String> command(Path root, String page) throws IOException {
        Path lab = find("jupyter-lab");
        Path notebook = lab == null ? find("jupyter-notebook") : null;
        if (lab == null && notebook == null) {
            throw new IOException("JupyterLab is not installed; install it with 'pip install jupyterlab' ('pipx install"
                    + " jupyterlab' if pip refuses to), or with 'conda env create -f environment.yml && conda activate"
                    + " cs336'");
        }
        if (lab != null) {
            return List.of(lab.toString(), "--ServerApp.root_dir=" + root, "--LabApp.default_url=/lab/tree/" + page);
        }
        String view = page.endsWith(".ipynb") ? "/notebooks/" : "/tree/";
        // Notebook 7 takes the options of ServerApp, Notebook 6 those of NotebookApp; each ignores the other's.
        return List.of(
                notebook.toString(),
                "--ServerApp.root_dir=" + root,
                "--NotebookApp.notebook_dir=" + root,
                "--JupyterNotebookApp.default_url=" + view + page,
                "--NotebookApp.default_url=" + view + page);
    }

    private Path find(String executable) throws IOException {
        List<Path> folders = new ArrayList<>(path);
        folders.add(home.resolve(".local/bin"));
        for (String name : CONDA) {
            Path conda = home.resolve(name);
            folders.add(conda.resolve("envs/cs336/bin"));
            folders.add(conda.resolve("bin"));
            folders.addAll(environments(conda.resolve("envs")));
        }
        return folders.stream()
                .map(folder -> folder.resolve(executable))
                .flatMap(file -> Files.isExecutable(file) && Files.isRegularFile(file) ? Stream.of(file) : Stream.of())
                .findFirst()
                .orElse(null);
    }

    private static List<Path> environments(Path folder) throws IOException {
        List<Path> bins = new ArrayList<>();
        if (Files.isDirectory(folder)) {
            try (DirectoryStream<Path> environments = Files.newDirectoryStream(folder)) {
                environments.forEach(environment -> bins.add(environment.resolve("bin")));
            }
        }
        bins.sort(null);
        return bins;
    }
}
