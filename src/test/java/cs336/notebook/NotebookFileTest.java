package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import cs336.bench.AttackCount;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Notebook files that are damaged or were written by hand. */
class NotebookFileTest {
    @TempDir
    private Path folder;

    private String refused(String text) throws IOException {
        Path file = Files.writeString(folder.resolve("bad.ipynb"), text);
        String message =
                assertThrows(IOException.class, () -> Notebook.read(file)).getMessage();
        assertTrue(message.startsWith(file + " is not a notebook"), message);
        return message.substring((file + " is not a notebook").length());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{'cell_type': 5, 'source': '1'}|cell 2: cell_type must be code, markdown or raw, not 5",
                "{'cell_type': 'Code', 'source': '1'}|cell 2: cell_type must be code, markdown or raw, not 'Code'",
                "{'source': '1'}|cell 2: cell_type must be code, markdown or raw, not null",
                "3|cell 2: it must be an object, not 3",
                "null|cell 2: it must be an object, not null",
                "{'cell_type': 'code', 'source': '1', 'id': ['a']}|cell 2: id must be a string, not ['a']",
                "{'cell_type': 'code'}|cell 2: source must be a string or a list of strings, not null",
                "{'cell_type': 'code', 'source': 5}|cell 2: source must be a string or a list of strings, not 5",
                "{'cell_type': 'code', 'source': ['1', 2]}|cell 2: source must be a string or a list of strings, not ['1',2]",
                "{'cell_type': 'code', 'source': '', 'metadata': []}|cell 2: metadata must be an object, not []",
                "{'cell_type': 'code', 'source': '', 'metadata': {'tags': 'x'}}|cell 2: tags must be a list, not 'x'",
                "{'cell_type': 'code', 'source': '', 'outputs': 7}|cell 2: outputs must be a list of objects, not 7"
            })
    void cellThatIsNotOfTheFormatIsNamed(String cell, String reason) throws IOException {
        String good = "{'cell_type': 'code', 'source': ['int a = 1;']}";
        String text = "{'nbformat': 4, 'cells': [" + good + ", " + cell + "]}";
        assertEquals(": " + reason.replace('\'', '"'), refused(text.replace('\'', '"')));
    }

    @Test
    void fileThatIsNotANotebookIsNamed() throws IOException {
        assertEquals(": it is not JSON", refused(""));
        assertEquals(": it is not JSON", refused("{\"cells\": ["));
        assertEquals(": it is not JSON", refused("[".repeat(200_000)));
        assertEquals(": it has no cells or no nbformat", refused("[]"));
        assertEquals(": it has no cells or no nbformat", refused("{\"cells\": [], \"nbformat\": \"four\"}"));
        assertEquals(": it has no cells or no nbformat", refused("{\"cells\": 3, \"nbformat\": 4}"));
        assertEquals(" of format 4, but of format 3", refused("{\"cells\": [], \"nbformat\": 3}"));
        Path file = Files.write(folder.resolve("latin.ipynb"), new byte[] {'{', (byte) 0xE9, '}'});
        assertEquals(
                file + " is not a notebook: it is not UTF-8",
                assertThrows(IOException.class, () -> Notebook.read(file)).getMessage());
    }

    @Test
    void cellWithoutMetadataIsCleaned() throws IOException {
        Path file = folder.resolve("a.ipynb");
        Files.writeString(file, "{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"code\", \"source\": \"1\"}]}");
        Notebook.read(file).clean(file);
        assertEquals("1", Notebook.read(file).cells().get(0).source());
    }

    /** JupyterLab stores an image that is pasted into a text cell as an attachment. */
    @Test
    void attachedImagesAreShown() throws Exception {
        Path file = folder.resolve("attached.ipynb");
        String cell = "{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"markdown\", \"metadata\": {},"
                + " \"source\": \"![a plot](attachment:image.png)\", \"attachments\": %s}]}";
        Files.writeString(file, cell.formatted("{\"image.png\": {\"image/png\": \"iVBORw0KGgo=\"}}"));
        String html = new NotebookPage(Notebook.read(file)).html();
        assertTrue(html.contains("<img src=\"data:image/png;base64,iVBORw0KGgo=\" alt=\"a plot\""), html);
        for (String damaged : List.of("3", "{\"image.png\": 3}", "{\"image.png\": {\"image/png\": {}}}", "{}")) {
            Files.writeString(file, cell.formatted(damaged));
            assertThrows(NotebookFailure.class, () -> new NotebookPage(Notebook.read(file)), damaged);
        }
    }

    /** Mutated files are read, shown and cleaned, or refused by name. */
    @Test
    void mutatedFilesAreShownOrRefused() throws Exception {
        Path original = new WrittenNotebook()
                .markdown("# Title", "", "A [link](x.png), $x^2$ and `code`", "", "| a | b |", "|---|---|", "| 1 | 2 |")
                .code("int n = 20;", "System.out.println(n);")
                .codeThatMayFail("1 / 0")
                .codeWithOutput("2")
                .save(folder, "original");
        byte[] valid = Files.readAllBytes(original);
        var random = new Random(18);
        Path file = folder.resolve("mutated.ipynb");
        Path copy = folder.resolve("copy.ipynb");
        int refused = 0;
        int shown = 0;
        int tried = AttackCount.times(1000);
        for (int i = 0; i < tried; i++) {
            Files.write(file, mutated(valid, random));
            try {
                Notebook notebook = Notebook.read(file);
                notebook.cells().stream()
                        .filter(Notebook.Cell::isCode)
                        .forEach(cell -> cell.setResult(null, new JsonArray()));
                assertTrue(new NotebookPage(notebook).html().length() > 0);
                notebook.write(copy);
                Notebook.read(file).clean(copy);
                shown++;
            } catch (IOException e) {
                assertTrue(e.getMessage().startsWith(file.toString()), e.getMessage());
                refused++;
            } catch (NotebookFailure e) {
                assertTrue(e.getMessage().startsWith("mutated, text in cell 1"), e.getMessage());
                refused++;
            }
        }
        assertEquals(tried, refused + shown);
        AttackCount.inputs(tried, "mutated notebooks");
        assertTrue(refused > tried / 5 && shown > tried / 5, refused + " refused, " + shown + " shown");
    }

    private static byte[] mutated(byte[] valid, Random random) {
        byte[] bytes = valid.clone();
        for (int edits = 1 + random.nextInt(2); edits > 0; edits--) {
            int at = random.nextInt(bytes.length);
            switch (random.nextInt(9)) {
                case 0 -> bytes[at] = (byte) random.nextInt(256);
                case 5, 6, 7, 8 -> bytes[at] = (byte) ('a' + random.nextInt(26));
                case 1 -> bytes[at] = (byte) "{}[]\",:0123456789nulltruefalse".charAt(random.nextInt(30));
                case 2 -> bytes = Arrays.copyOf(bytes, 1 + at);
                case 3 -> {
                    // Another value in the place of a string.
                    String[] parts =
                            new String(bytes, StandardCharsets.UTF_8).split("(?=\"[^\"]*\")", 2 + random.nextInt(40));
                    String value = new String[] {"5", "null", "[]", "{}", "true", "[\"a\", 1]"}[random.nextInt(6)];
                    int last = parts.length - 1;
                    parts[last] = parts[last].replaceFirst("^\"[^\"]*\"(?!:)", value);
                    bytes = String.join("", parts).getBytes(StandardCharsets.UTF_8);
                }
                default -> {
                    int from = random.nextInt(bytes.length);
                    int length = Math.min(bytes.length - Math.max(at, from), random.nextInt(40));
                    System.arraycopy(bytes, from, bytes, at, length);
                }
            }
        }
        return bytes;
    }
}
