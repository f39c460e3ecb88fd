package cs336.site;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.writeup.Page;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class SiteTest {
    private static final String FIGURE = "<svg xmlns=\"http://www.w3.org/2000/svg\">" + "<g/>".repeat(1000) + "</svg>";

    @TempDir
    private Path root;

    private Path site;

    @BeforeEach
    void createProject() throws IOException {
        site = root.resolve("site");
        for (String folder : List.of("pages", "notebooks", "kernels", "writeup", "texts")) {
            Files.createDirectories(root.resolve(folder));
        }
        Files.writeString(
                root.resolve("kernels/README.md"),
                "# Kernels\n\nSee [add](add.cu) and [one](../notebooks/01-a.ipynb).");
        Files.writeString(root.resolve("kernels/add.cu"), "__global__ void add() {}");
        Files.writeString(root.resolve("writeup/glossary.md"), "# Glossary\n\n**warp**: 32 threads.");
    }

    private void page(String name, String body) throws IOException {
        Files.writeString(root.resolve("pages/" + name + ".html"), Page.forScreen("Title of " + name, body));
    }

    private List<String> build() throws IOException {
        return Site.build(root, root.resolve("pages"), root.resolve("texts"), site);
    }

    private String text(String name) throws IOException {
        return Files.readString(site.resolve(name));
    }

    @Test
    void pagesHaveNeighboursContentsAndLivingLinks() throws IOException {
        String image = Base64.getEncoder().encodeToString(FIGURE.getBytes());
        page(
                "01-a",
                "<h1 id=\"a\">A</h1><p>Why <b>warps</b> wait <svg aria-label=\"T^2\"><g/></svg> s.</p><h2 id=\"more\">More</h2><p>occupancy</p>"
                        + "<img alt=\"x\" src=\"data:image/svg+xml;base64," + image + "\">");
        page(
                "02-b",
                "<h1 id=\"b\">B</h1><p><a href=\"01-a.ipynb#More?\">before</a> <a href=\"../kernels/README.md\">k</a>"
                        + " <a href=\"https://example.org/x\">out</a></p>");
        Files.writeString(root.resolve("texts/writeup.html"), Page.forScreen("Writeup", "<h1 id=\"w\">W</h1>"));
        Files.write(root.resolve("texts/writeup.pdf"), new byte[] {1});
        assertEquals(List.of(), build());

        String first = text("01-a.html");
        assertTrue(first.contains("rel=\"next\" href=\"02-b.html\""), "next");
        assertFalse(first.contains("rel=\"prev\""), "prev");
        assertTrue(first.contains("<a href=\"#more\">More</a>"), "contents");
        String second = text("02-b.html");
        assertTrue(second.contains("rel=\"prev\" href=\"01-a.html\"") && second.contains("href=\"01-a.html#more\""));
        assertTrue(second.contains("href=\"files/kernels-README.html\"") && second.contains("https://example.org/x"));
        String readme = text("files/kernels-README.html");
        assertTrue(readme.contains("href=\"kernels-add.cu.txt\"")
                || readme.contains("href=\"../files/kernels-add.cu.txt\""));
        assertTrue(readme.contains("href=\"../01-a.html\""), "links of converted files lead back");

        String index = text("index.html");
        assertTrue(index.contains("href=\"writeup.html\"") && index.contains("href=\"writeup.pdf\""));
        assertTrue(index.contains("href=\"files/writeup-glossary.html\""), "glossary");
        assertTrue(index.contains("src=\"thumbnails/01-a.svg\"") && index.contains("Why warps wait T² s."), index);
        assertEquals(FIGURE, text("thumbnails/01-a.svg"));
        String search = text("search.js");
        assertTrue(search.contains("[\"Title of 01-a\",\"More\",\"01-a.html#more\",\"occupancy"), search);
    }

    @Test
    void solutionIsNotTakenForItsNotebook() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1><p><a href=\"solutions/01-a.ipynb\">solutions</a></p>");
        Files.createDirectories(root.resolve("notebooks/solutions"));
        Files.writeString(root.resolve("notebooks/solutions/01-a.ipynb"), "{\"cells\": []}");
        assertEquals(List.of(), build());
        assertTrue(text("01-a.html").contains("href=\"files/notebooks-solutions-01-a.ipynb"), text("01-a.html"));
    }

    @Test
    void wordsAtTheEndOfALongSectionAreFound() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1><p>" + "many words ".repeat(1000) + "occupancy</p>");
        build();
        assertTrue(text("search.js").contains("occupancy"));
    }

    @Test
    void everyPageHasALanguageAndTheSmallScreensRules() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1>");
        build();
        for (String name : List.of("index.html", "01-a.html")) {
            assertTrue(text(name).contains("lang=\"en\"") && text(name).contains("name=\"viewport\""), name);
            assertTrue(text(name).contains("@media screen and (max-width: 760px)"), name);
        }
    }

    @Test
    void deadLinksAreNamed() throws IOException {
        page(
                "01-a",
                "<h1 id=\"a\">A</h1><p><a href=\"../no/such.md\">x</a><a href=\"#nothing\">y</a><a href=\"#a\">z</a></p>");
        assertEquals(
                List.of(
                        "01-a.html: the link to ../no/such.md leads nowhere",
                        "01-a.html: the link to #nothing leads nowhere"),
                build());
    }

    @Test
    void linksAndImagesThatNoFileCanHaveAreNamedOrLeftOut() throws IOException {
        page(
                "01-a",
                "<h1 id=\"a\">A</h1><p><a href=\"/\">r</a><a href=\"" + "../".repeat(50) + "\">up</a>"
                        + "<a href=\"a\0b.md\">0</a></p><img alt=\"x\" src=\"data:image/png;base64," + "%".repeat(5000)
                        + "\">");
        assertEquals(
                List.of(
                        "01-a.html: the link to / leads nowhere",
                        "01-a.html: the link to " + "../".repeat(50) + " leads nowhere",
                        "01-a.html: the link to a\0b.md leads nowhere"),
                build());
        assertFalse(text("index.html").contains("<img"), "thumbnail");
    }

    @Test
    void damagedFilesAreNamedWithTheLine() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1><p><a href=\"../kernels/README.md\">k</a></p>");
        Path readme = root.resolve("kernels/README.md");
        Files.write(readme, new byte[] {'a', '\n', -1});
        assertEquals(
                readme + ", line 2: the text is not UTF-8",
                assertThrows(IOException.class, this::build).getMessage());
        Files.writeString(readme, "\n![missing](missing.png)");
        String error = assertThrows(IOException.class, this::build).getMessage();
        assertTrue(error.startsWith(readme + ", line 2: missing image missing.png"), error);
        Path page = Files.write(root.resolve("pages/01-a.html"), new byte[] {-1});
        assertEquals(
                page + ", line 1: the text is not UTF-8",
                assertThrows(IOException.class, this::build).getMessage());
    }

    @Test
    void wrongUseOfTheCommandIsExitCodeTwo() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1>");
        String pages = root.resolve("pages").toString();
        Path empty = Files.createDirectory(root.resolve("empty"));
        assertRefused("--notebooks must be a folder with executed notebooks, not '" + empty + "'", empty.toString());
        assertRefused("--output must not be the folder " + pages + ", which is read", pages, "--output", pages);
        assertRefused("--output must not be empty", pages, "--output", "");
        assertRefused(
                "--writeup must be a folder with writeup.html, not '" + empty + "'",
                pages,
                "--writeup",
                empty.toString());
    }

    @Test
    void theFolderOfTheSiteIsCreated() throws IOException {
        page("01-a", "<h1 id=\"a\">A</h1>");
        Files.writeString(root.resolve("texts/writeup.html"), Page.forScreen("Writeup", "<h1 id=\"w\">W</h1>"));
        Path output = root.resolve("none/out");
        new CommandLine(new SiteCommand())
                .execute(
                        "--notebooks", root.resolve("pages").toString(),
                        "--writeup", root.resolve("texts").toString(),
                        "--output", output.toString());
        assertTrue(Files.exists(output.resolve("index.html")));
    }

    private void assertRefused(String message, String notebooks, String... more) {
        List<String> arguments = new ArrayList<>(List.of(
                "--notebooks", notebooks, "--output", root.resolve("out").toString()));
        if (List.of(more).contains("--output")) {
            arguments.subList(2, 4).clear();
        }
        arguments.addAll(List.of(more));
        var errors = new StringWriter();
        int code = new CommandLine(new SiteCommand())
                .setParameterExceptionHandler((error, unused) -> {
                    errors.write(error.getMessage());
                    return CommandLine.ExitCode.USAGE;
                })
                .execute(arguments.toArray(String[]::new));
        assertEquals(CommandLine.ExitCode.USAGE, code);
        assertEquals(message, errors.toString());
    }
}
