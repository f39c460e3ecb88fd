package cs336.writeup;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;

/** The {@code writeup} command: builds the writeup as an HTML page and a PDF. */
@Command(
        name = "writeup",
        description = {
            "Builds the writeup as one HTML page and as a PDF.",
            "The build fails if a number, figure, table, citation or link cannot be resolved: exit code 1, with the"
                    + " file and line of each problem. Prints the length of each chapter in the PDF, and warns if a"
                    + " chapter has more than " + WriteupCommand.MOST_CHAPTER_PAGES
                    + " pages or all together have more than "
                    + WriteupCommand.MOST_PAGES + " without the appendix."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 writeup", "  ./cs336 writeup writeup --output /tmp/writeup"})
public final class WriteupCommand extends LabCommand {
    @Parameters(arity = "0..1", paramLabel = "FOLDER", defaultValue = "writeup", description = "folder with writeup.md")
    private Path folder;

    @Option(
            names = "--output",
            paramLabel = "<folder>",
            defaultValue = "target/writeup",
            description = "folder for writeup.html and writeup.pdf")
    private Path output;

    static final int MOST_PAGES = 60;
    static final int MOST_CHAPTER_PAGES = 6;

    @Override
    public Integer call() throws IOException {
        if (!Files.isRegularFile(folder.resolve("writeup.md"))) {
            throw new ParameterException(spec.commandLine(), "no writeup.md in " + folder);
        }
        checked(() -> {
            ArgumentCheck.writableFolder("--output", output);
            return null;
        });
        try {
            report(Writeup.read(folder).save(output));
        } catch (WriteupException e) {
            spec.commandLine().getErr().println(e.getMessage());
            return 1;
        }
        out().println(output.resolve("writeup.html") + "\n" + output.resolve("writeup.pdf"));
        return 0;
    }

    private void report(List<ChapterLength> chapters) {
        double before = 0;
        for (ChapterLength chapter : chapters) {
            out().printf("%5.1f pages from page %3d: %s%n", chapter.pages(), chapter.page(), chapter.title());
            if (chapter.isAppendix()) {
                continue;
            }
            before += chapter.pages();
            warn(chapter.pages(), MOST_CHAPTER_PAGES, "in " + chapter.title());
        }
        warn(before, MOST_PAGES, "before the appendix");
        out().flush();
    }

    private void warn(double pages, int most, String where) {
        if (pages > most) {
            spec.commandLine().getErr().printf("warning: %.1f pages %s, at most %d%n", pages, where, most);
        }
    }
}
