package cs336.charts;

import java.awt.Font;
import java.awt.FontFormatException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * The bundled typefaces: Source Sans 3 for text and charts, Source Code Pro for code, both under the SIL Open Font
 * License (see the licences next to the fonts in {@code cs336/charts/fonts}).
 *
 * <p>Figures and writeup use no other fonts, so that they look the same on every machine. On a machine without fonts
 * and fontconfig, Java cannot load any font unless it has a font configuration. This class therefore writes a
 * configuration that maps Java's logical fonts (Dialog, SansSerif …) to the bundled files. It does so on Linux only,
 * before Java's font system starts, and not if {@code -Dsun.awt.fontconfig} is already set.
 */
public enum Typeface {
    /** Text. */
    REGULAR("SourceSans3-Regular", "Source Sans 3", 400, false),
    /** Headings and emphasis. */
    SEMIBOLD("SourceSans3-Semibold", "Source Sans 3", 600, false),
    /** Light emphasis. */
    ITALIC("SourceSans3-It", "Source Sans 3", 400, true),
    /** Code. */
    MONO("SourceCodePro-Regular", "Source Code Pro", 400, false);

    private static final String FONT_CONFIGURATION = "sun.awt.fontconfig";
    private static final Path FOLDER = unpack();

    private final String file;
    private final String family;
    private final int weight;
    private final boolean italic;
    private Font font;

    Typeface(String file, String family, int weight, boolean italic) {
        this.file = file;
        this.family = family;
        this.weight = weight;
        this.italic = italic;
    }

    /** Returns the CSS font family. */
    public String family() {
        return family;
    }

    /** Returns the CSS font weight, 100–900. */
    public int weight() {
        return weight;
    }

    /** Returns true for an italic typeface. */
    public boolean italic() {
        return italic;
    }

    /** Returns this typeface as an AWT font of the given size in drawing units. */
    public synchronized Font font(float size) {
        if (font == null) {
            try {
                font = Font.createFont(
                        Font.TRUETYPE_FONT, FOLDER.resolve(file + ".ttf").toFile());
            } catch (FontFormatException | IOException e) {
                throw new IllegalStateException("cannot load bundled font " + file + ".ttf", e);
            }
        }
        return font.deriveFont(size);
    }

    /** Returns the first code point of a text for which this typeface has no glyph, or -1. */
    public int unknownCharacter(String text) {
        int at = font(1).canDisplayUpTo(Objects.requireNonNull(text, "text must not be null"));
        return at < 0 ? -1 : text.codePointAt(at);
    }

    /** Returns the content of the TrueType file. */
    public byte[] ttf() {
        return read(file + ".ttf");
    }

    /** Returns the content of the WOFF2 file, the compressed format for web pages. */
    public byte[] woff2() {
        return read(file + ".woff2");
    }

    /**
     * Makes Java's font system usable on a machine without fonts. Must be called before any font is loaded; the drawing
     * classes of this package do so.
     */
    public static void prepare() {
        // The static initializer does the work.
    }

    private static byte[] read(String name) {
        try (InputStream in = Typeface.class.getResourceAsStream("fonts/" + name)) {
            if (in == null) {
                throw new IllegalStateException("bundled font " + name + " is not on the class path");
            }
            return in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Writes the fonts into the user's cache, {@code $XDG_CACHE_HOME/cs336/fonts} or {@code ~/.cache/cs336/fonts}, or
     * into a temporary folder if that cannot be written.
     */
    private static Path unpack() {
        String given = System.getenv("XDG_CACHE_HOME");
        Path caches =
                given == null || given.isBlank() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(given);
        try {
            return unpack(Files.createDirectories(
                    caches.resolve("cs336").resolve("fonts").toAbsolutePath()));
        } catch (IOException e) {
            return unpackIntoTemporaryFolder();
        }
    }

    private static Path unpackIntoTemporaryFolder() {
        try {
            Path folder = unpack(Files.createTempDirectory("cs336-fonts"));
            folder.toFile().deleteOnExit();
            try (Stream<Path> files = Files.list(folder)) {
                files.forEach(file -> file.toFile().deleteOnExit());
            }
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write the bundled fonts to the folder for temporary files", e);
        }
    }

    private static Path unpack(Path folder) throws IOException {
        for (Typeface face : values()) {
            write(folder.resolve(face.file + ".ttf"), face.ttf());
        }
        boolean linux = System.getProperty("os.name").startsWith("Linux");
        if (linux && System.getProperty(FONT_CONFIGURATION) == null) {
            Path configuration = folder.resolve("fontconfig.properties");
            write(configuration, fontConfiguration(folder).getBytes(StandardCharsets.ISO_8859_1));
            System.setProperty(FONT_CONFIGURATION, configuration.toString());
        }
        return folder;
    }

    /** Replaces a file whose content differs, atomically, as other processes may read it. */
    private static void write(Path path, byte[] content) throws IOException {
        if (!Files.exists(path) || !Arrays.equals(Files.readAllBytes(path), content)) {
            ReplacedFile.write(path, content);
        }
    }

    /** Returns a mapping of Java's logical fonts in the format of {@code fontconfig.properties}. */
    private static String fontConfiguration(Path folder) {
        var text = new StringBuilder("version=1\nsequence.allfonts=latin-1\n");
        for (String logical : new String[] {"dialog", "dialoginput", "sansserif", "serif", "monospaced"}) {
            boolean mono = logical.equals("monospaced") || logical.equals("dialoginput");
            for (String style : new String[] {"plain", "bold", "italic", "bolditalic"}) {
                Typeface face = mono ? MONO : style.startsWith("bold") ? SEMIBOLD : REGULAR;
                text.append(logical + "." + style + ".latin-1=" + face.file + "\n");
            }
        }
        for (Typeface face : values()) {
            text.append("filename." + face.file + "=" + folder.resolve(face.file + ".ttf") + "\n");
        }
        return text.toString();
    }
}
